import type { StoredFile } from 'baton/client';
import { Download, FileText, ImageOff } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { bytes } from '../format.ts';
import { servicePath } from '../place.ts';

/** The address of a stored file; null: the file is on another host, which the page does not ask. */
function placeOf(url: string): string | null {
  const id = /^@blob:(blob_[0-9a-f]{32})$/.exec(url)?.[1];
  if (id !== undefined) return servicePath(`/v1/blobs/${id}`);
  return url.startsWith('data:image/') ? url : null;
}

const SHOWN = /^image\/(png|jpeg|gif|webp)$/;

/** An image, or a file with its name, kind and size. */
export function FileView({ file, isStripped }: Readonly<{ file: StoredFile; isStripped?: boolean }>): ReactNode {
  const [isBroken, setBroken] = useState(false);
  const { mediaType, filename, url, sizeBytes } = file;
  const place = placeOf(url);
  const name = filename ?? mediaType;
  const isImage = SHOWN.test(mediaType) && place !== null;
  return (
    <figure className="flex max-w-full flex-col items-start gap-1">
      {isImage && !isBroken && (
        <img
          src={place}
          alt={name}
          loading="lazy"
          className="max-h-64 max-w-full rounded border border-line object-contain"
          onError={() => setBroken(true)}
        />
      )}
      <figcaption className="flex max-w-full flex-wrap items-center gap-1.5 text-sm text-dim">
        {isBroken ? <ImageOff size={13} aria-hidden="true" /> : <FileText size={13} aria-hidden="true" />}
        <span className="truncate" title={`${name} (${mediaType})`} dir="auto">
          {name}
        </span>
        {sizeBytes !== undefined && <span>{bytes(sizeBytes)}</span>}
        {isBroken && (
          <span>cannot be shown: its bytes are no {mediaType.replace('image/', '').toUpperCase()} image</span>
        )}
        {isStripped === true && <span className="text-waiting">the model now sees its name only</span>}
        {place !== null && (
          <a
            href={place}
            download={filename ?? 'file'}
            className="icon-button h-5! w-5!"
            aria-label={`Download ${name}`}
          >
            <Download size={12} />
          </a>
        )}
        {place === null && <span className="wrap-anywhere">{url.slice(0, 200)}</span>}
      </figcaption>
    </figure>
  );
}
