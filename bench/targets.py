# SPDX-License-Identifier: MIT
"""What uvsched is to reach, and whether it did in this run."""


def lines(val, row, quick):
    """val(table, row, column, metric) is a figure of this run, or None."""
    out = []
    top = 10**5 if quick else 10**6
    at = f"N=10^{len(str(top)) - 1}"

    def add(workload, target, ours, limit, other=None, least=False, strict=False, unit=""):
        """ours ≤ limit × other; without other: ours ≤ limit. least: ≥; strict: < in place of ≤."""
        x = val(*ours)
        base = val(*other) if other else 1
        if x is None or base is None:
            missing = ours if x is None else other
            out.append(dict(workload=workload, target=target, seen="—",
                            state=f"not measured: no {missing[3]} of {missing[1]}"))
            return
        seen = x / base if base else float("inf")
        good = seen >= limit if least else seen < limit if strict else seen <= limit
        out.append(dict(workload=workload, target=target, seen=f"{seen:.3g}{' ×' if other else unit}",
                        value=seen, limit=limit, state="reached" if good else "**not reached**"))

    def against(workload, tab, col, metric, *pairs, ours=row, col2=None, strict=False):
        for limit, peer in pairs:
            sign = "<" if strict else "≤"
            what = f"{sign} {limit:g} × {peer}" if limit != 1 or not strict else f"ahead of {peer}"
            add(workload, what, (tab, ours, col, metric), limit, (tab, peer, col2 or col, metric), strict=strict)

    against(f"W1 arm, {at}", "w1", top, "arm_ns", (0.5, "libuv"), (0.75, "stpe"))
    against(f"W1 arm by uvs_submit_many, {at}", "many", top, "many_ns", (0.3, "libuv"))
    add(f"W1 bytes per armed task, {at}", "≤ 96", ("mem", row, top, "bytes"), 96)
    against(f"W2 cancel+arm, {at}", "w1", top, "churn_ns", (0.5, "libuv"), (1.1, "netty"), (1.1, "libev"))
    add(f"W2 growth from 10^3 to 10^{len(str(top)) - 1}", "≤ 8 ×", ("w1", row, top, "churn_ns"), 8,
        ("w1", row, 10**3, "churn_ns"))
    against(f"W3 fire on the loop, {at}", "w3", ("loop", top), "fire_ns", (0.25, "libuv"))
    for n in [10**5] if quick else [10**5, 10**6]:
        against(f"W3 fire on the pool, N=10^{len(str(n)) - 1}", "w3", ("pool", n), "fire_ns", (0.6, "asio"), (0.2, "stpe"))
    for p in (1, 2, 4):
        against(f"W4a submit, delay 0, P={p}", "w4", ("pool", "zero", p), "submit_ns", (0.5, "stpe"))
    for p in (1, 2, 4):
        against(f"W4a total, delay 0, P={p}", "w4", ("pool", "zero", p), "total_ns", (0.7, "asio"))
    for p in (1, 2, 4):
        limit, strict = (1.1, False) if p == 1 else (1, True)
        against(f"W4b submit far, P={p}", "w4", ("loop", "rand", p), "submit_ns", (limit, "netty"), strict=strict)
        against(f"W4b submit far, P={p}", "w4", ("pool", "rand", p), "submit_ns", (limit, "stpe"), strict=strict)
    w5 = "W5 on the pool, portable timer"
    against(f"{w5}, p50", "w5", "x", "p50", (0.6, "libuv (pool)"), ours=f"{row} (pool)")
    add(w5, "never early", ("w5", f"{row} (pool)", "x", "early_us"), 0, unit=" µs early")
    for metric, what, limit in (("p50", "p50", 1.4), ("p99", "p99", 2), ("cpu_ms", "CPU", 0.85)):
        against(f"W5 on the pool, precise, {what}", "w5", "x", metric, (limit, "stpe (pool)"), ours=f"{row} (precise, pool)")
    against("W5 on the loop, precise, p50", "w5", "x", "p50", (1, "stpe (pool)"), ours=f"{row} (precise, loop)")
    for v in ("pool", "loop"):
        add(f"W5 on the {v}, precise", "never early", ("w5", f"{row} (precise, {v})", "x", "early_us"), 0, unit=" µs early")
    w6 = "W6 10^5 tasks × 100 ms on the pool"
    add(f"{w6}, keeps up", "≥ 0.99", ("w6", row, (10**5, 100), "keepup"), 0.99, least=True)
    add(f"{w6}, CPU", "≤ 0.6 s per million", ("w6", row, (10**5, 100), "cpu_s_per_M"), 0.6)
    add("W6 10^4 tasks × 1 s on the pool, CPU", "≤ 5 s per million", ("w6", row, (10**4, 1000), "cpu_s_per_M"), 5)
    add("W7 uv_fs_stat beside blocking bodies, p50", "< 1 ms", ("w7", row, "block", "stat_p50_us"), 1000, strict=True, unit=" µs")
    for kind, what in (("block", "blocking"), ("cpu", "CPU-bound")):
        add(f"W7 heartbeat beside {what} bodies, p99", "≤ 2 × that on the idle loop", ("w7", row, kind, "beat_p99_us"), 2,
            ("w7", row, "idle", "beat_p99_us"))
    against("W8 push-back on the loop", "w8", "loop", "push_ns", (0.2, "libuv"))
    add("W9 exit", "< 0.1 s + the running bodies (1 ms)", ("w9", row, "x", "close_ms"), 101, strict=True, unit=" ms")
    against("W10 lanes", "w10", "thread", "lane_ns", (1, "asio"), strict=True)
    against("W10 lanes, fastest repetition of each", "w10", "best", "lane_ns", (1, "asio"), strict=True)
    return out
