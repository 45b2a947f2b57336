"""Hand-written collectives with the args that PyTorch records; times are in nanoseconds."""

from typing import Any

from support.small import kernel

US = 1000


def collective(
    start: int,
    end: int,
    *,
    name: str = "allreduce",
    group: str = "0",
    ranks: tuple[int, ...] = (0, 1),
    elements: int = 1000,
    out_elements: int | None = None,
    dtype: str = "Float",
    seq: int | None = None,
    kernel_name: str = "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
    **args: Any,
) -> dict:
    """A communication kernel whose args describe the collective."""
    if seq is not None:
        args["Seq"] = seq
    return kernel(
        start,
        end,
        name=kernel_name,
        stream=args.pop("stream", 20),
        **{
            "Collective name": name,
            "In msg nelems": elements,
            "Out msg nelems": elements if out_elements is None else out_elements,
            "Group size": len(ranks),
            "dtype": dtype,
            "Process Group Name": group,
            "Process Group Ranks": str(list(ranks)),
        },
        **args,
    )
