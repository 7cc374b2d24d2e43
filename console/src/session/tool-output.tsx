import type { ToolOutput, ToolPart } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { client } from '../api.ts';
import { bytes } from '../format.ts';
import { Failure } from '../ui/empty.tsx';
import { FileView } from './file-view.tsx';
import { jsonText, LongText } from './long-text.tsx';
import { SaveFile } from './stored-file.tsx';

/** The outcome of a call, as the model is shown it. */
export function OutputView({ output }: Readonly<{ output: ToolOutput }>): ReactNode {
  switch (output.type) {
    case 'text':
      return output.value === '' ? <p className="text-dim">The output is empty.</p> : <LongText text={output.value} />;
    case 'json':
      return <LongText text={jsonText(output.value)} />;
    case 'error-text':
      return (
        <div className="text-failed">
          <LongText text={output.value} />
        </div>
      );
    case 'execution-denied':
      return <p className="text-cancelled">Denied{output.reason === undefined ? '' : `: ${output.reason}`}</p>;
    case 'content':
      return (
        <div className="flex flex-col gap-2">
          {output.value.map((item, index) =>
            // biome-ignore lint/suspicious/noArrayIndexKey: an output does not change.
            item.type === 'text' ? <LongText key={index} text={item.text} /> : <FileView key={index} file={item} />,
          )}
        </div>
      );
  }
}

/** A whole output that was cut when it was stored, read on demand. */
export function WholeOutput({ blobId }: Readonly<{ blobId: string }>): ReactNode {
  const [isAsked, ask] = useState(false);
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: ['blob', blobId],
    queryFn: async ({ signal }) => (await client.blobs.download(blobId, { signal })).text(),
    enabled: isAsked,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 30_000,
  });
  return (
    <div className="flex flex-col items-start gap-1">
      <div className="flex gap-2">
        {!isAsked && (
          <button type="button" className="button small" onClick={() => ask(true)}>
            Show the whole output
          </button>
        )}
        <SaveFile className="button small" blobId={blobId} name={`${blobId}.txt`}>
          Download it
        </SaveFile>
      </div>
      {isFetching && <p className="text-dim">Reading the whole output…</p>}
      {error !== null && <Failure error={error} retry={() => void refetch()} />}
      {data !== undefined && (
        <div className="w-full">
          <p className="text-sm text-dim">The whole output: {bytes(new Blob([data]).size)}</p>
          <LongText text={data} />
        </div>
      )}
    </div>
  );
}

/** Words for the ways in which a call or file is not shown to the model whole. */
export function markWords(
  part: Pick<ToolPart, 'compactedAt' | 'mediaStrippedAt' | 'viewLimitChars' | 'truncated'>,
): string[] {
  return [
    ...(part.compactedAt === undefined ? [] : ['pruned']),
    ...(part.viewLimitChars === undefined ? [] : ['shortened']),
    ...(part.mediaStrippedAt === undefined ? [] : ['files removed']),
    ...(part.truncated === undefined ? [] : ['cut']),
  ];
}

const MARK_SENTENCES: Readonly<Record<string, string>> = {
  pruned: 'A prune put a placeholder in its place: the model no longer sees this output.',
  shortened: 'The model sees its beginning and its end.',
  'files removed': 'The model sees the names of its files only.',
  cut: 'It was too large: its beginning and its end are stored here, the whole beside it.',
};
export const markSentence = (mark: string): string => MARK_SENTENCES[mark] ?? mark;
