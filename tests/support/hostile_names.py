"""Names that somebody may give a consumer group, or a row of the ledger may hold."""

HOSTILE = (
    *("with,comma", 'with "quotes"', '"quoted"', '"', ",", '","', "'single'", "a;b|c", "topic,0,5", "12"),
    *(
        "a b",
        " leading",
        "trailing ",
        "tab\there",
        "back\\slash",
        "\\n",
        "#comment",
        "=1+1",
        "-dash",
        "--group",
    ),
    *(
        "gro\u00df-\u65e5\u672c-\U0001f600",
        "\u202eright to left",
        "\ufeffmark",
        "\u2028separator",
        "\x85next",
    ),
    *("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b31m", "\x07", "\x7f", "\xa0", "carriage\rreturn", "\r"),
    *("$(id)", "`id`", "'; drop table writers; --"),
)
"""Kafka's own tool can be given each of these."""
UNWRITABLE = ("line\nfeed", "both\r\n", "\n", "nul\0", "")
"""It cannot be given any of these."""
