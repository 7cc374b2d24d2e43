import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useState } from 'react';
import { client } from '../api.ts';
import { failureWords } from '../format.ts';
import { notify } from '../notices.ts';

// A link or an image cannot send the header of the login, so the page reads the bytes of files by itself.

/** The address of a stored image for this page. Null: it is not there yet. */
export function useStoredImage(
  blobId: string | null,
  mediaType: string,
): Readonly<{ src: string | null; isMissing: boolean }> {
  const { data, isError } = useQuery({
    queryKey: ['image', blobId],
    queryFn: async ({ signal }) => (await client.blobs.download(blobId ?? '', { signal })).arrayBuffer(),
    enabled: blobId !== null,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 30_000,
  });
  const [src, setSrc] = useState<string | null>(null);
  useEffect(() => {
    if (data === undefined) return;
    const url = URL.createObjectURL(new Blob([data], { type: mediaType }));
    setSrc(url);
    return () => {
      setSrc(null);
      URL.revokeObjectURL(url);
    };
  }, [data, mediaType]);
  return { src, isMissing: isError };
}

/** A button that saves a stored file. */
export function SaveFile(
  props: Readonly<{ blobId: string; name: string; label?: string; className: string; children: ReactNode }>,
): ReactNode {
  const { blobId, name, label, className, children } = props;
  const [isBusy, setBusy] = useState(false);
  const save = async (): Promise<void> => {
    setBusy(true);
    try {
      const bytes = await (await client.blobs.download(blobId)).arrayBuffer();
      saveAs(name, bytes);
    } catch (error) {
      notify(failureWords(error), 'failed');
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" className={className} aria-label={label} disabled={isBusy} onClick={() => void save()}>
      {children}
    </button>
  );
}

/** Whatever the bytes are, they are saved and never opened: an address of this page has the page's rights. */
function saveAs(name: string, bytes: ArrayBuffer): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
  link.download = name;
  link.click();
  // The download has begun with the click; its bytes stay until they are written.
  setTimeout(() => URL.revokeObjectURL(link.href), REVOKED_AFTER_MS);
}

const REVOKED_AFTER_MS = 60_000;
