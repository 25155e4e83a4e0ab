/** What views and the extension of JupyterLab know of each other: one object of a page. */

const SHARED = Symbol.for("eagerflow.panels");

/** A view of a notebook that can be shown in a panel of JupyterLab as well. */
export interface Showable {
  readonly root: HTMLElement;
  readonly kind: string;
  readonly title: string;
  /** Show it in an element, too; gives what ends that. */
  open(node: HTMLElement): Promise<() => void>;
  /** Call when there is nothing to be shown any more. */
  onEnd(ended: () => void): void;
}

export interface Panels {
  /** those that are on the page now, in the order in which they came */
  readonly views: Set<Showable>;
  /** opens a panel; null where there is no JupyterLab with the extension */
  show: ((view: Showable) => void) | null;
}

export function panels(): Panels {
  const page = globalThis as unknown as Record<symbol, Panels | undefined>;
  return (page[SHARED] ??= { views: new Set(), show: null });
}
