"""What went wrong in the JVM or in a worker, in one line."""

from py4j.protocol import Py4JJavaError


def reason(error: BaseException) -> str:
    """The line that says most: the JVM's exception, or the last line of a worker's traceback inside it."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if line.startswith("ledger.errors.")]
    return (raised or lines or [type(error).__name__])[0]
