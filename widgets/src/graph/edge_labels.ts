/** Positions of the texts of edges: at their lines, away from boxes and from each other if there is room. */

import { frameOf, type Placed } from "../layout/types";

/** width of a letter, height of a line, and padding of a text, in pixels at full size */
const [LETTER, LINE, PAD] = [6.5, 15, 2];
/** positions that are tried: parts of the length of the line, and pixels above or below it */
const ALONG = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8] as const;
const BESIDE = [0, -12, 12, -27, 27] as const;
/** cost, in hidden square pixels, of the end of a line, and of each pixel beside the line */
const [FAR, OFF] = [60, 1.5];

export class EdgeLabels {
  private readonly boxes: readonly Placed[];
  private readonly labels: Placed[] = [];

  /**
   * @param boxes boxes that texts should not overlap, by their middles
   * @param names names that they should not overlap, by their top left corners
   */
  constructor(boxes: Iterable<Placed>, names: readonly Placed[]) {
    this.boxes = [...[...boxes].map(frameOf), ...names];
  }

  /** The frame for a text at a path; later texts avoid it. */
  place(path: string, text: string, scale: number): Placed {
    const [width, height] = [(text.length * LETTER + 2 * PAD) * scale, LINE * scale];
    let best: Placed | null = null;
    let least = Infinity;
    for (const along of ALONG) {
      const at = pointOf(path, along);
      for (const beside of BESIDE) {
        const frame = { x: at.x - width / 2, y: at.y + (beside - LINE / 2) * scale, width, height };
        const price = this.hidden(frame) + (Math.abs(along - 0.5) * FAR + Math.abs(beside) * OFF) * scale * scale;
        if (price < least) [best, least] = [frame, price];
      }
    }
    this.labels.push(best!);
    return best!;
  }

  private hidden(frame: Placed): number {
    const sum = (others: readonly Placed[]): number => others.reduce((all, other) => all + common(frame, other), 0);
    return sum(this.boxes) + 2 * sum(this.labels);
  }
}

/** A point of a path of curves, at a part of the number of its curves. */
export function pointOf(path: string, along: number): { x: number; y: number } {
  const points = [...path.matchAll(/(-?[\d.]+),(-?[\d.]+)/g)].map((m) => [Number(m[1]), Number(m[2])] as const);
  const curves = Math.floor((points.length - 1) / 3);
  if (!curves) return { x: points[0]?.[0] ?? 0, y: points[0]?.[1] ?? 0 };
  const curve = Math.min(Math.floor(along * curves), curves - 1);
  const t = along * curves - curve;
  const weights = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3];
  const part = points.slice(3 * curve, 3 * curve + 4);
  const sum = (axis: 0 | 1): number => part.reduce((all, point, i) => all + point[axis] * weights[i]!, 0);
  return { x: sum(0), y: sum(1) };
}

/** The common area of two rectangles, in square pixels. */
function common(a: Placed, b: Placed): number {
  const width = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
  const height = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
  return Math.max(width, 0) * Math.max(height, 0);
}
