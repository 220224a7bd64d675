# SPDX-License-Identifier: MIT
"""What uvsched is to reach, and whether it did in this run.

A bound is reached or not. A goal is worth trying hard for: it is printed as a goal, and missing it is no failure.
A bound against today's figures needs the row `old`, the core before it was rebuilt around one lock."""


def lines(val, row, quick, old=False):
    """val(table, row, column, metric) is a figure of this run, or None. old: there is a row `old`."""
    out = []
    top = 10**5 if quick else 10**6
    at = f"N=10^{len(str(top)) - 1}"

    def add(workload, target, ours, limit, other=None, least=False, strict=False, unit="", goal=False):
        """ours ≤ limit × other; without other: ours ≤ limit. least: ≥; strict: < in place of ≤."""
        if goal:
            target = f"goal: {target}"
        x = val(*ours)
        base = val(*other) if other else 1
        if x is None or base is None:
            missing = ours if x is None else other
            out.append(dict(workload=workload, target=target, seen="—",
                            state=f"not measured: no {missing[3]} of {missing[1]}"))
            return
        seen = x / base if base else float("inf")
        good = seen >= limit if least else seen < limit if strict else seen <= limit
        state = "reached" if good else "goal not reached" if goal else "**not reached**"
        out.append(dict(workload=workload, target=target, seen=f"{seen:.3g}{' ×' if other else unit}",
                        value=seen, limit=limit, goal=goal, state=state))

    def against(workload, tab, col, metric, *pairs, ours=row, col2=None, strict=False, goal=False):
        for limit, peer in pairs:
            sign = "<" if strict else "≤"
            what = f"{sign} {limit:g} × {peer}" if limit != 1 or not strict else f"ahead of {peer}"
            add(workload, what, (tab, ours, col, metric), limit, (tab, peer, col2 or col, metric), strict=strict, goal=goal)

    def today(workload, tab, col, metric, limit):
        """ours ≤ limit × the row `old`."""
        if row == "old":
            return
        what = f"≤ {limit:g} × today's"
        if old:
            add(workload, what, (tab, row, col, metric), limit, (tab, "old", col, metric))
        else:
            out.append(dict(workload=workload, target=what, seen="—", state="left out: no row `old`"))

    against(f"W1 arm, {at}", "w1", top, "arm_ns", (0.5, "libuv"), (0.75, "stpe"))
    against(f"W1 arm by uvs_submit_many, {at}", "many", top, "many_ns", (0.2, "libuv"))
    add(f"W1 bytes per armed task, {at}", "≤ 80", ("mem", row, top, "bytes"), 80)
    against(f"W2 cancel+arm, {at}", "w1", top, "churn_ns", (0.6, "libuv"), (1.1, "netty"), (1.1, "libev"))
    against("W2 cancel+arm, N=10^3", "w1", 10**3, "churn_ns", (1, "libuv"))
    add(f"W2 growth from 10^3 to 10^{len(str(top)) - 1}", "≤ 8 ×", ("w1", row, top, "churn_ns"), 8,
        ("w1", row, 10**3, "churn_ns"))
    against(f"W3 fire on the loop, {at}", "w3", ("loop", top), "fire_ns", (0.18, "libuv"))
    for n, jdk in [(10**5, 0.35)] if quick else [(10**5, 0.35), (10**6, 0.15)]:
        against(f"W3 fire on the pool, N=10^{len(str(n)) - 1}", "w3", ("pool", n), "fire_ns", (0.65, "asio"), (jdk, "stpe"))
    for p in (1, 2, 4):
        against(f"W4a submit, delay 0, P={p}", "w4", ("pool", "zero", p), "submit_ns", (0.5, "stpe"))
    for p in (1, 2, 4):
        against(f"W4a total, delay 0, P={p}", "w4", ("pool", "zero", p), "total_ns", (0.7, "asio"), goal=p == 4)
        against(f"W4a total, delay 0, P={p}", "w4", ("pool", "zero", p), "total_ns", (0.6, "stpe"))
    for p in (1, 2, 4):
        today(f"W4a total on the loop, delay 0, P={p}", "w4", ("loop", "zero", p), "total_ns", 1.2)
    for p, goal in ((1, 1.1), (2, 1.3), (4, 1.4)):
        limit, strict = (1.1, False) if p == 1 else (1, True)
        against(f"W4b submit far, P={p}", "w4", ("loop", "rand", p), "submit_ns", (limit, "netty"), strict=strict)
        against(f"W4b submit far, P={p}", "w4", ("pool", "rand", p), "submit_ns", (goal, "stpe"), goal=True)
    for p, limit in ((1, 1.2), (2, 2)):
        today(f"W4b submit far, warm, P={p}", "w4warm", ("pool", "rand", p), "submit_ns", limit)
    w5 = "W5 on the pool, portable timer"
    against(f"{w5}, p50", "w5", "x", "p50", (0.6, "libuv (pool)"), ours=f"{row} (pool)")
    add(w5, "never early", ("w5", f"{row} (pool)", "x", "early_us"), 0, unit=" µs early")
    for metric, what, limit in (("p50", "p50", 1.4), ("p99", "p99", 2), ("cpu_ms", "CPU", 0.85)):
        against(f"W5 on the pool, precise, {what}", "w5", "x", metric, (limit, "stpe (pool)"), ours=f"{row} (precise, pool)",
                goal=metric == "p99")
    against("W5 on the loop, precise, p50", "w5", "x", "p50", (1, "stpe (pool)"), ours=f"{row} (precise, loop)")
    for v in ("pool", "loop"):
        add(f"W5 on the {v}, precise", "never early", ("w5", f"{row} (precise, {v})", "x", "early_us"), 0, unit=" µs early")
    w6 = "W6 10^5 tasks × 100 ms on the pool"
    add(f"{w6}, keeps up", "≥ 0.99", ("w6", row, (10**5, 100), "keepup"), 0.99, least=True)
    add(f"{w6}, CPU", "≤ 0.85 s per million", ("w6", row, (10**5, 100), "cpu_s_per_M"), 0.85)
    add("W6 10^4 tasks × 1 s on the pool, CPU", "≤ 6.5 s per million", ("w6", row, (10**4, 1000), "cpu_s_per_M"), 6.5)
    today("W6 10^5 tasks × 1 s on the pool, CPU", "w6", (10**5, 1000), "cpu_s_per_M", 1.1)
    add("W7 uv_fs_stat beside blocking bodies, p50", "< 1 ms", ("w7", row, "block", "stat_p50_us"), 1000, strict=True, unit=" µs")
    for kind, what in (("block", "blocking"), ("cpu", "CPU-bound")):
        add(f"W7 heartbeat beside {what} bodies, p99", "≤ 2 × that on the idle loop", ("w7", row, kind, "beat_p99_us"), 2,
            ("w7", row, "idle", "beat_p99_us"))
    against("W8 push-back on the loop", "w8", "loop", "push_ns", (0.33, "libuv"))
    add("W9 exit", "≤ 10 ms", ("w9", row, "x", "close_ms"), 10, unit=" ms")
    against("W10 lanes", "w10", "thread", "lane_ns", (0.35, "asio"))
    against("W10 lanes, fastest repetition of each", "w10", "best", "lane_ns", (1, "asio"), strict=True)
    w11 = "W11 flood, the loop's submit+cancel"
    add(f"{w11}, p50", "≤ 5 µs", ("w11", row, "flat", "call_p50_us"), 5, unit=" µs")
    add(f"{w11}, p99", "≤ 300 µs", ("w11", row, "flat", "call_p99_us"), 300, unit=" µs")
    today("W11 flood, heartbeat, p99", "w11", "flat", "beat_p99_us", 1)
    today("W11b paced flood, the loop's submit+cancel, p99", "w11", "paced", "call_p99_us", 2)
    add("W11b paced flood, the loop's submit+cancel, worst", "≤ 5 ms", ("w11", row, "paced worst", "call_worst_us"), 5000, unit=" µs")
    for v in ("loop", "pool"):
        add(f"W12 ageing on the {v}", "≤ 1.15 × a fresh scheduler", ("w12", row, v, "aged_ratio"), 1.15, unit=" ×")
    return out
