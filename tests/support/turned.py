"""Check that a comparison with its sides swapped is the mirror image of the original."""

from hta_widgets import diff as hd

TURNED = {
    "slower": "faster", "faster": "slower", "added": "removed", "removed": "added",
    "fused": "split", "split": "fused",
}  # fmt: skip


def changes_of(both, *, turned):
    """Return the rows of `changes`, with the sides swapped back if `turned`."""
    sides = ("after", "before") if turned else ("before", "after")
    return sorted(
        (
            TURNED.get(row["change"], row["change"]) if turned else row["change"],
            *(row[name] for name in ("measure", "name", "path", "places")),
            *(row[f"{side}_count"] for side in sides),
            *(row[f"{side}_ns"] for side in sides),
            *(row[f"{side}_names"] for side in sides),
            TURNED.get(row["how"], row["how"]) if turned else row["how"],
            # Float sums depend on the order of summation.
            f"{row['p_value']:.6g}",
        )
        for row in hd.changes(both).astype({"change": str, "how": str}).to_dict("records")
    )


def pairs_of(both, *, turned):
    """Return the partner and status of each event, with the sides swapped back if `turned`."""
    frame = hd.pairs(both)
    sides = ("after", "before") if turned else ("before", "after")
    status = frame["status"].astype(str)
    if turned:
        status = status.map(lambda word: TURNED.get(word, word))
    columns = [frame[f"{side}_{what}"] for side in sides for what in ("rank", "id")]
    return sorted(zip(*columns, status, strict=True))


def assert_mirrored(one, other):
    """Compare in both directions: partners, changes and findings must mirror each other."""
    present, back = hd.compare(one, other), hd.compare(other, one)
    assert pairs_of(present, turned=False) == pairs_of(back, turned=True)
    assert changes_of(present, turned=False) == changes_of(back, turned=True)
    result = [
        [(one.kind, round(one.diff_ns, 3)) for one in hd.findings(present)],
        [(TURNED.get(one.kind, one.kind), -round(one.diff_ns, 3)) for one in hd.findings(back)],
    ]
    assert result[0] == result[1]
    return present, back
