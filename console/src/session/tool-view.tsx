import type { Message, ToolPart } from '@baton-run/server/client';
import { ChevronRight } from 'lucide-react';
import { type ReactNode, use, useState } from 'react';
import { State } from '../ui/state.tsx';
import { AnswerCall } from './answer-call.tsx';
import { NewestRun } from './asked.ts';
import { ChildOfCall, childState } from './child-row.tsx';
import { inputSummary, jsonText, LongText } from './long-text.tsx';
import { markSentence, markWords, OutputView, WholeOutput } from './tool-output.tsx';
import { Children } from './use-children.ts';

const QUIET: ReadonlySet<string> = new Set(['completed']);

/** A call of a tool, folded to a line. One that waits for a person is open, with its question. */
export function ToolView({ part, message }: Readonly<{ part: ToolPart; message: Message }>): ReactNode {
  const run = use(NewestRun);
  const action =
    run !== undefined && run.id === message.runId ? run.requiredActions.find(({ id }) => id === part.id) : undefined;
  const child = use(Children).get(part.id ?? '');
  // A call that waits for a child waits for no person.
  const state = part.output === undefined && child !== undefined ? childState(child) : part.state;
  const [isUnfolded, unfold] = useState(false);
  const isOpen = isUnfolded || action !== undefined;
  const marks = markWords(part);
  return (
    <div className="rounded border border-line" data-call={part.id}>
      <button
        type="button"
        className="flex w-full min-w-0 items-center gap-2 px-2 py-0.5 text-left hover:bg-hover"
        aria-expanded={isOpen}
        onClick={() => unfold(!isOpen)}
      >
        <ChevronRight size={12} className={`flex-none text-dim ${isOpen ? 'rotate-90' : ''}`} aria-hidden="true" />
        <span className="max-w-1/2 flex-none truncate font-mono text-sm">{part.toolName}</span>
        <span className="min-w-0 flex-1 truncate text-sm text-dim" dir="auto">
          {inputSummary(part.input)}
        </span>
        {marks.map((mark) => (
          <span key={mark} className="flex-none rounded bg-hover px-1 text-xs text-dim" title={markSentence(mark)}>
            {mark}
          </span>
        ))}
        {!QUIET.has(state) && (
          <span className="flex-none text-sm">
            <State state={state} />
          </span>
        )}
      </button>
      {isOpen && (
        <div className="flex flex-col gap-2 border-t border-line p-2">
          <CallDetails part={part} />
          {action !== undefined && run !== undefined && <AnswerCall run={run} action={action} />}
        </div>
      )}
    </div>
  );
}

/** Input and output of a call, whole. */
export function CallDetails({ part }: Readonly<{ part: ToolPart }>): ReactNode {
  const child = use(Children).get(part.id ?? '');
  return (
    <>
      {child !== undefined && <ChildOfCall child={child} />}
      <Labelled words="Input">
        <LongText text={jsonText(part.input)} />
      </Labelled>
      {part.output !== undefined && (
        <Labelled words={part.output.type === 'error-text' ? 'Error' : 'Output'}>
          <OutputView output={part.output} />
        </Labelled>
      )}
      {part.output === undefined && (
        <p className="text-sm text-dim">
          {part.state === 'unknown'
            ? 'Its worker died while it ran: it may or may not have taken effect.'
            : 'It has no outcome yet.'}
        </p>
      )}
      {markWords(part).map((mark) => (
        <p key={mark} className="text-sm text-dim">
          {markSentence(mark)}
        </p>
      ))}
      {part.outputBlobId !== undefined && <WholeOutput blobId={part.outputBlobId} />}
    </>
  );
}

const Labelled = ({ words, children }: Readonly<{ words: string; children: ReactNode }>): ReactNode => (
  <div className="min-w-0">
    <p className="text-xs text-dim">{words}</p>
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region must be reached by keys. */}
    {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for controls, and a section would be a landmark. */}
    <div role="group" tabIndex={0} aria-label={words} className="max-h-96 overflow-auto">
      {children}
    </div>
  </div>
);
