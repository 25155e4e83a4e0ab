"""Pictures of graphs: contents, layout, and output as DOT and SVG."""
