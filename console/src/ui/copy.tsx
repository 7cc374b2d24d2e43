import { Check, Copy } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { notify } from '../notices.ts';

/** Copies text, also in a page without TLS, where the clipboard of the browser is missing. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = document.createElement('textarea');
    field.value = text;
    field.setAttribute('aria-hidden', 'true');
    document.body.append(field);
    field.select();
    const isDone = document.execCommand('copy');
    field.remove();
    if (!isDone) notify('The browser does not allow copying: select the text and copy it yourself', 'failed');
  }
}

const SHOWN_MS = 1_200;

function useCopied(text: string): readonly [boolean, () => void] {
  const [isCopied, setCopied] = useState(false);
  const copy = (): void => {
    void copyText(text).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), SHOWN_MS);
    });
  };
  return [isCopied, copy];
}

/** An id, shortened, that copies itself on click. */
export function Id({ id, chars = 8 }: Readonly<{ id: string; chars?: number }>): ReactNode {
  const [isCopied, copy] = useCopied(id);
  const [prefix = '', rest] = id.split(/_(.*)/s);
  // The first digits of an id are its time, which ids of one day share. The last ones tell them apart.
  const short = rest === undefined || rest.length <= chars ? id : `${prefix}_…${rest.slice(-chars)}`;
  return (
    <button
      type="button"
      className="bare flex-none font-mono text-xs whitespace-nowrap"
      title={`${id}\nClick to copy`}
      onClick={(event) => {
        event.stopPropagation();
        event.preventDefault();
        copy();
      }}
    >
      {isCopied ? 'copied' : short}
    </button>
  );
}

export function CopyButton({ text, label }: Readonly<{ text: string; label: string }>): ReactNode {
  const [isCopied, copy] = useCopied(text);
  return (
    <button type="button" className="icon-button" title={label} aria-label={label} onClick={copy}>
      {isCopied ? <Check size={13} /> : <Copy size={13} />}
    </button>
  );
}
