"""The connections of a copy task, behind `ports.Network`: raw fetches and produce requests, answered out of turn."""
