/** Where boxes, edges and clusters are, in pixels from the top left. */

export interface Placed {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  /** by identifier: the middle of each box, and its size */
  readonly boxes: ReadonlyMap<string, Placed>;
  /** by identifier: the top left of each cluster, and its size */
  readonly clusters: ReadonlyMap<string, Placed>;
  /** in the order of the edges: paths of SVG */
  readonly edges: readonly string[];
}
