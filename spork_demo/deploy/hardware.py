"""The machines of Hugging Face Spaces a deployment may name, as their documentation has them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """memory, disk, gpu_memory: 10^9 bytes. hub: its name on the hub. free: of a price an hour."""

    hub: str
    memory: float
    disk: float
    gpu_memory: float = 0.0
    free: bool = False
    pythons: tuple[str, ...] = ()
    torches: tuple[str, ...] = ()

    @property
    def lent(self) -> bool:
        """Whether its GPU is there for one call at a time only."""
        return bool(self.torches)


MACHINES = {
    "cpu-basic": Machine("cpu-basic", 16, 50, free=True),
    "cpu-upgrade": Machine("cpu-upgrade", 32, 50),
    "zero-gpu": Machine(
        "zero-a10g",
        16,
        50,
        gpu_memory=48,
        free=True,
        pythons=("3.10", "3.12"),
        torches=("2.8.0", "2.9.1", "2.10.0", "2.11.0"),
    ),
    "t4-small": Machine("t4-small", 15, 50, gpu_memory=16),
    "t4-medium": Machine("t4-medium", 30, 100, gpu_memory=16),
    "a10g-small": Machine("a10g-small", 15, 110, gpu_memory=24),
    "a10g-large": Machine("a10g-large", 46, 200, gpu_memory=24),
}
