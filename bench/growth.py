# SPDX-License-Identifier: MIT
"""A small log-log line chart as SVG."""
import math

COLOURS = ["#0072b2", "#9ca3af", "#d55e00", "#009e73", "#cc79a7"]  # of Okabe and Ito, and a grey
W, H = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 72, 120, 56, 52


def power(n):
    """10^n, with a raised n."""
    return f'10<tspan dy="-5" font-size="9">{n}</tspan>'


def plain(x):
    return f"{x:.0f}" if x >= 10 else f"{x:.1f}"


def svg(title, unit, series, across="tasks armed, N"):
    """series: [(name, [(n, value), ...])], each drawn as one line; values are above 0."""
    xs = [n for _, points in series for n, _ in points]
    ys = [v for _, points in series for _, v in points]
    x0, x1 = math.log10(min(xs)), max(math.log10(max(xs)), math.log10(min(xs)) + 1)
    y0, y1 = math.log10(min(ys)) - 0.08, math.log10(max(ys)) + 0.08
    px = lambda n: LEFT + (math.log10(n) - x0) / (x1 - x0) * (W - LEFT - RIGHT)
    py = lambda v: H - BOTTOM - (math.log10(v) - y0) / (y1 - y0) * (H - TOP - BOTTOM)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" width="{W}" height="{H}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{W}" height="{H}" fill="#ffffff"/>',
           f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold" fill="#1f2937">{title}</text>']
    # Horizontal lines at 1, 2 and 5 of each power of ten; vertical ones at powers of ten.
    for e in range(math.floor(y0), math.ceil(y1) + 1):
        for m in (1, 2, 5):
            v = m * 10.0**e
            if y0 <= math.log10(v) <= y1:
                y = py(v)
                out.append(f'<line x1="{LEFT}" x2="{W - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
                           f'stroke="{"#d1d5db" if m == 1 else "#eef0f3"}"/>')
                out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#374151">{v:g}</text>')
    for e in range(math.ceil(x0), math.floor(x1) + 1):
        x = px(10.0**e)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{H - BOTTOM}" stroke="#eef0f3"/>')
        out.append(f'<text x="{x:.1f}" y="{H - BOTTOM + 20}" text-anchor="middle" fill="#374151">{power(e)}</text>')
    out.append(f'<text x="{(LEFT + W - RIGHT) / 2}" y="{H - 12}" text-anchor="middle" fill="#374151">{across}</text>')
    out.append(f'<text transform="translate(18 {(TOP + H - BOTTOM) / 2}) rotate(-90)" text-anchor="middle" fill="#374151">{unit}</text>')
    # The names at the ends of the lines, moved apart where they would meet.
    ends = sorted((py(points[-1][1]), i) for i, (_, points) in enumerate(series))
    label, last = {}, -99
    for y, i in ends:
        label[i] = last = max(y, last + 15)
    over = max(label.values()) - (H - BOTTOM)
    if over > 0:
        label = {i: y - over for i, y in label.items()}
    at = LEFT
    for i, (name, points) in enumerate(series):
        c = COLOURS[i % len(COLOURS)]
        wide = 3 if i == 0 else 1.8
        path = " ".join(f"{px(n):.1f},{py(v):.1f}" for n, v in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{c}" stroke-width="{wide}"/>')
        for n, v in points:
            out.append(f'<circle cx="{px(n):.1f}" cy="{py(v):.1f}" r="3" fill="{c}"><title>{name}, N={n}: {plain(v)}</title></circle>')
        n, v = points[-1]
        out.append(f'<text x="{W - RIGHT + 10}" y="{label[i] + 4:.1f}" fill="#374151">{name} {plain(v)}</text>')
        if px(n) < W - RIGHT - 1:  # it ends before the others do
            out.append(f'<line x1="{px(n) + 5:.1f}" x2="{W - RIGHT + 7}" y1="{py(v):.1f}" y2="{label[i]:.1f}" stroke="{c}" stroke-dasharray="2 3"/>')
        out.append(f'<line x1="{at}" x2="{at + 22}" y1="40" y2="40" stroke="{c}" stroke-width="{wide}"/>')
        out.append(f'<text x="{at + 28}" y="44" fill="#374151">{name}</text>')
        at += 46 + 7 * len(name)
    out.append("</svg>")
    return "\n".join(out) + "\n"
