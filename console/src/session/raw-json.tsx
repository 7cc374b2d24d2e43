import type { StepRow } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import { Braces, Terminal } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { readText } from '../api.ts';
import { parseJson } from '../exact-json.ts';
import { notify } from '../notices.ts';
import { SERVICE_URL } from '../place.ts';
import { CopyButton, copyText } from '../ui/copy.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Failure } from '../ui/empty.tsx';
import { LongText } from './long-text.tsx';

const curlOf = (path: string): string => `curl -H "Authorization: Bearer $BATON_API_KEY" '${SERVICE_URL}${path}'`;

/** The step as the API has it: to read, to copy, and as a command. */
export function RawJson({ row, runId }: Readonly<{ row: StepRow; runId: string }>): ReactNode {
  const [isOpen, open] = useState(false);
  const path = `/v1/runs/${runId}/steps?after=${row.step - 1}&limit=1`;
  return (
    <>
      <button type="button" className="icon-button" title="Raw JSON" aria-label="Raw JSON" onClick={() => open(true)}>
        <Braces size={13} />
      </button>
      <button
        type="button"
        className="icon-button"
        title="Copy as curl"
        aria-label="Copy as curl"
        onClick={() => void copyText(curlOf(path)).then(() => notify('Copied as curl'))}
      >
        <Terminal size={13} />
      </button>
      <Dialog isOpen={isOpen} close={() => open(false)} title={`GET ${path}`} width="max-w-3xl">
        {isOpen && <Raw path={path} />}
      </Dialog>
    </>
  );
}

function Raw({ path }: Readonly<{ path: string }>): ReactNode {
  const { data, error, refetch } = useQuery({
    queryKey: ['raw', path],
    queryFn: ({ signal }) => readText(path, signal),
    staleTime: 0,
  });
  if (error !== null) return <Failure error={error} retry={() => void refetch()} />;
  if (data === undefined) return <p className="text-dim">Reading…</p>;
  const text = indent(data);
  return (
    <div className="relative">
      <span className="absolute top-0 right-0 bg-raised">
        <CopyButton text={text} label="Copy the JSON" />
      </span>
      <LongText text={text} />
    </div>
  );
}

/** JSON on lines, with each number as it was sent. */
const indent = (json: string): string => JSON.stringify(parseJson(json), null, 2);
