/** The interface between views and the extension of JupyterLab: one object of a page. */

const SHARED = Symbol.for("eagerflow.panels");

/** A view of a notebook that can also be shown in a panel of JupyterLab. */
export interface Showable {
  readonly root: HTMLElement;
  readonly kind: string;
  readonly title: string;
  /** Show it in another element as well; gives a function that ends this. */
  open(node: HTMLElement): Promise<() => void>;
  /** Register a callback for the end of the view. */
  onEnd(ended: () => void): void;
}

export interface Panels {
  /** views that are on the page now, in the order in which they came */
  readonly views: Set<Showable>;
  /** opens a panel; null outside of a JupyterLab with the extension */
  show: ((view: Showable) => void) | null;
}

export function panels(): Panels {
  const page = globalThis as unknown as Record<symbol, Panels | undefined>;
  return (page[SHARED] ??= { views: new Set(), show: null });
}
