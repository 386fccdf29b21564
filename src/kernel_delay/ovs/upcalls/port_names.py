"""What the ports of a kernel's datapaths are called, learned on the way."""

from msgspec import Struct

# As a dpif's full name begins, where its datapath is the kernel's (lib/dpif-netlink.c).
SYSTEM = "system@"


class PortName(Struct, frozen=True, tag="port_name", tag_field="event"):
    """The present name of a port.

    Attributes:
        datapath: The datapath.
        number: The number of the port.
        name: The name of the port.
    """

    datapath: str
    number: int
    name: str


class PortNames:
    """The names of the ports that upcalls came from."""

    def __init__(self) -> None:
        """Know none."""
        self._names: dict[tuple[str, int], str] = {}

    def learn(self, port: PortName) -> None:
        """Take a name, which may be a new one for a port that had another."""
        self._names[port.datapath, port.number] = port.name

    def name(self, datapath: str, number: int | None) -> str:
        """The port's name; its number where no name is known, `-` for no port.

        `datapath` is the kernel's name of it or the dpif's, `system@` and the same.
        """
        if number is None:
            return "-"
        return self._names.get((datapath.removeprefix(SYSTEM), number)) or str(number)
