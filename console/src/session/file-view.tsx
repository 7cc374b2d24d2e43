import type { StoredFile } from '@baton-run/server/client';
import { Download, FileText, ImageOff } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { bytes } from '../format.ts';
import { SaveFile, useStoredImage } from './stored-file.tsx';

/** The id of a stored file; null: the file is in its URL, or on another host, which the page does not ask. */
const blobOf = (url: string): string | null => /^@blob:(blob_[0-9a-f]{32})$/.exec(url)?.[1] ?? null;

const SHOWN = /^image\/(png|jpeg|gif|webp)$/;

/** An image, or a file with its name, kind and size. */
export function FileView({ file, isStripped }: Readonly<{ file: StoredFile; isStripped?: boolean }>): ReactNode {
  const [isBroken, setBroken] = useState(false);
  const { mediaType, filename, url, sizeBytes } = file;
  const blobId = blobOf(url);
  const inline = url.startsWith('data:image/') ? url : null;
  const name = filename ?? mediaType;
  const isImage = SHOWN.test(mediaType) && (blobId !== null || inline !== null);
  const stored = useStoredImage(isImage ? blobId : null, mediaType);
  const src = inline ?? stored.src;
  const cannotShow = isBroken || stored.isMissing;
  return (
    <figure className="flex max-w-full flex-col items-start gap-1">
      {isImage && !cannotShow && src !== null && (
        <img
          src={src}
          alt={name}
          loading="lazy"
          className="max-h-64 max-w-full rounded border border-line object-contain"
          onError={() => setBroken(true)}
        />
      )}
      <figcaption className="flex max-w-full flex-wrap items-center gap-1.5 text-sm text-dim">
        {cannotShow ? <ImageOff size={13} aria-hidden="true" /> : <FileText size={13} aria-hidden="true" />}
        <span className="truncate" title={`${name} (${mediaType})`} dir="auto">
          {name}
        </span>
        {sizeBytes !== undefined && <span>{bytes(sizeBytes)}</span>}
        {isBroken && (
          <span>cannot be shown: its bytes are no {mediaType.replace('image/', '').toUpperCase()} image</span>
        )}
        {isStripped === true && <span className="text-waiting">the model now sees its name only</span>}
        {blobId !== null && (
          <SaveFile
            blobId={blobId}
            name={filename ?? 'file'}
            className="icon-button h-5! w-5!"
            label={`Download ${name}`}
          >
            <Download size={12} />
          </SaveFile>
        )}
        {inline !== null && (
          <a
            href={inline}
            download={filename ?? 'file'}
            className="icon-button h-5! w-5!"
            aria-label={`Download ${name}`}
          >
            <Download size={12} />
          </a>
        )}
        {blobId === null && inline === null && <span className="wrap-anywhere">{url.slice(0, 200)}</span>}
      </figcaption>
    </figure>
  );
}
