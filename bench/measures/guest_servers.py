"""What a watch costs servers on a kernel that takes programs at its functions: in a guest."""

import sys

import msgspec

from bench.figures import Absence, Figure
from bench.measures.measure import Measure, Setting
from bench.serving import Serving
from tests.debian import DebianError
from tests.kernels.guest import Guest, GuestError, kvm_boots
from tests.kernels.images import MissingImageError, fetch, listed_kernels

# The oldest of Debian's that takes programs at several functions at once (Linux 5.18).
KERNEL = "Debian 12"
_LIMIT_S = 600.0


class GuestServers(Measure):
    """Servers in a guest."""

    name = "guest"
    title = "Requests of redis and nginx in a guest"
    method = (
        f"As above, in an emulated guest of {KERNEL}'s kernel, whose function tracer a watch uses:"
        " there other calls than polls pass no program. The server, its clients and all else have"
        " one CPU together. An emulator's times are no processor's: the shares are what counts."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Boot it, and measure there."""
        (kernel,) = (each for each in listed_kernels() if each.name == KERNEL)
        try:
            image = fetch(kernel)
            results = setting.folder / image.release
            guest = Guest(image, kvm_boots(image, setting.folder / "kvm"), results)
            file = results / "serving.json"
            if guest.run([sys.executable, "-m", "bench.serving", str(file)], _LIMIT_S):
                raise GuestError("; ".join(guest.last_words()))
        except (DebianError, GuestError, MissingImageError) as error:
            return [], [Absence(kernel.name, str(error))]
        found = msgspec.json.decode(file.read_bytes(), type=Serving)
        return found.figures, found.absent
