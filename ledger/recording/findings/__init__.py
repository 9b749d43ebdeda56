"""What a recorder finds of its cluster that needs attention: outages, records behind fences."""
