import Markdown from 'markdown-to-jsx/react';
import type { ReactNode } from 'react';

/** Longer texts are shown as they are: reading them as Markdown would hold the page up. */
const MAX_CHARS = 30_000;

type LinkProps = Readonly<{ href?: string; title?: string; children?: ReactNode }>;

/** Only addresses of the web are links. */
function SafeLink({ href = '', title, children }: LinkProps): ReactNode {
  if (!/^(https?:|mailto:)/i.test(href)) return <span title={href}>{children}</span>;
  return (
    <a href={href} title={title ?? href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

/** An image elsewhere would tell its host of the reader: it becomes a link. */
const ImageLink = ({ src = '', alt }: Readonly<{ src?: string; alt?: string }>): ReactNode => (
  <SafeLink href={src}>{alt === undefined || alt === '' ? src : alt}</SafeLink>
);

const Scrolled = ({ children }: Readonly<{ children?: ReactNode }>): ReactNode => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region must be reached by keys.
  <pre tabIndex={0}>{children}</pre>
);

const OPTIONS = {
  disableParsingRawHTML: true,
  forceBlock: true,
  forceWrapper: true,
  wrapper: 'div',
  overrides: { a: SafeLink, img: ImageLink, pre: Scrolled },
} as const;

/** A model's text. HTML in it is shown as text. */
export function Prose({ text }: Readonly<{ text: string }>): ReactNode {
  if (text.length > MAX_CHARS) return <div className="whitespace-pre-wrap wrap-anywhere">{text}</div>;
  return (
    <Markdown className="prose" dir="auto" options={OPTIONS}>
      {text}
    </Markdown>
  );
}
