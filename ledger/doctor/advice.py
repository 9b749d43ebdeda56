"""What to do about a trouble. The reason beside it names the address, the variable, the file."""

from collections.abc import Mapping

from ledger.errors import Trouble

OF_TROUBLE: Mapping[Trouble, str] = {
    Trouble.SECRET: "set the variable, or write the file, where doctor and the mirror run; nothing was sent yet",
    Trouble.TLS_FILES: "correct ssl.ca.location, ssl.certificate.location and ssl.key.location: PEM files that the "
    "mirror may read, and the password of the key",
    Trouble.NAME: "correct the host name, or the name service of this machine",
    Trouble.REFUSED: "nobody listens there: start the broker, or correct the port",
    Trouble.UNREACHABLE: "nothing comes back from there: correct the address, or open the route or firewall",
    Trouble.NO_ANSWER: "it accepts connections and does not answer in time: check whether the broker hangs, is paused "
    "or overloaded, and whether the port is a broker's",
    Trouble.CLOSED: "it closes connections: the port may ask for a login (set security.protocol to sasl_plaintext or "
    "sasl_ssl), or is no broker's; the broker's log says which",
    Trouble.NEEDS_TLS: "set security.protocol to ssl or sasl_ssl, or take the address of a listener without TLS",
    Trouble.NO_TLS: "the port speaks no TLS: take the address of the TLS listener, or set security.protocol to "
    "plaintext or sasl_plaintext",
    Trouble.TLS: "compare the TLS versions of both sides, and whether the broker asks for a certificate of the mirror",
    Trouble.AUTHORITY: "set ssl.ca.location to the certificate of who signed the broker's",
    Trouble.HOST_NAME: "use the name that the certificate is for, or have one made for this name; "
    'ssl.endpoint.identification.algorithm = "none" leaves the name unchecked',
    Trouble.EXPIRED: "renew the broker's certificate; when it is valid, set this machine's clock",
    Trouble.CREDENTIALS: "correct sasl.username and sasl.password, or make the user at the broker",
    Trouble.MECHANISM: "set sasl.mechanism to one that is offered; where none is, security.protocol to plaintext or "
    "ssl",
    Trouble.NOT_ALLOWED: "grant it to the mirror's principal",
    Trouble.LEDGER: "check ledger.path and the rights to it; `mirror-ledger init` makes a ledger where there is none",
}
