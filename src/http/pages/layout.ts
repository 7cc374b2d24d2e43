import { html } from 'hono/html';

export type Markup = ReturnType<typeof html>;

const STYLE = `
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { max-width: 75rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
  nav { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: .5rem 0; border-bottom: 1px solid #8884; }
  table { border-collapse: collapse; width: 100%; }
  td, th { border-bottom: 1px solid #8884; padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top; }
  td a { white-space: nowrap; }
  pre { overflow: auto; padding: .75rem; background: #8882; border-radius: .25rem; font-size: .85rem; }
  summary { cursor: pointer; padding: .5rem 0; }
  tr:target { background: #fd86; }`;

/** A page for people: one HTML document that loads nothing from elsewhere. */
export function renderPage({ title, head, body }: Readonly<{ title: string; head?: Markup; body: Markup }>): Markup {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
${head ?? ''}
</head>
<body>
${body}
</body>
</html>`;
}
