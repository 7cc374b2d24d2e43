import { getToolName, isToolUIPart } from 'ai';
import Markdown from 'markdown-to-jsx/react';
import { type ChatMessage, isStopped } from './chat-message.ts';
import { FileView, filesIn } from './file-view.tsx';

type Part = ChatMessage['parts'][number];
type ToolPart = Extract<Part, { toolCallId: string }>;
type OnAnswer = (approvalId: string, approved: boolean) => void;
type Props = Readonly<{ message: ChatMessage; isQueued: boolean; onAnswer: OnAnswer }>;

export function MessageView({ message, isQueued, onAnswer }: Props) {
  const { role, parts } = message;
  return (
    <article className={isQueued ? `${role} queued` : role}>
      {parts.map((part, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: parts are only ever added at the end.
        <PartView key={index} part={part} isModels={role === 'assistant'} onAnswer={onAnswer} />
      ))}
      {isQueued && <span className="badge">queued</span>}
      {isStopped(message) && <span className="badge stopped">stopped</span>}
    </article>
  );
}

type PartProps = Readonly<{ part: Part; isModels: boolean; onAnswer: OnAnswer }>;

function PartView({ part, isModels, onAnswer }: PartProps) {
  if (isToolUIPart(part)) return <ToolView part={part} onAnswer={onAnswer} />;
  switch (part.type) {
    case 'text':
      return isModels ? <MarkdownView text={part.text} /> : <p className="text">{part.text}</p>;
    case 'reasoning':
      return part.text === '' ? null : <p className="reasoning">{part.text}</p>;
    case 'steering-message':
      return (
        <div className="steering">
          {part.parts.map((piece, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: they never change.
            <PartView key={index} part={piece} isModels={false} onAnswer={onAnswer} />
          ))}
        </div>
      );
    case 'file':
      return <FileView file={part} />;
    case 'source-url':
      return <SourceView title={part.title ?? part.url} url={part.url} />;
    case 'source-document':
      return <SourceView title={part.title} />;
    default:
      return null;
  }
}

const LINK = { props: { target: '_blank', rel: 'noreferrer' } };
/** The model chose the image's address, so the page does not load it. */
const NO_IMAGE = ({ alt }: Readonly<{ alt?: string }>) => <span>{alt}</span>;
const MARKDOWN = { disableParsingRawHTML: true, forceBlock: true, overrides: { a: LINK, img: NO_IMAGE } };

const MarkdownView = ({ text }: Readonly<{ text: string }>) => (
  <div className="text">
    <Markdown options={MARKDOWN}>{text}</Markdown>
  </div>
);

/** A source that the model cites. The address is the model's own claim, so only web pages become links. */
function SourceView({ title, url }: Readonly<{ title: string; url?: string }>) {
  if (url === undefined || !/^https?:/i.test(url)) return <span className="source">{title}</span>;
  return (
    <a className="source" href={url} target="_blank" rel="noreferrer">
      {title}
    </a>
  );
}

function ToolView({ part, onAnswer }: Readonly<{ part: ToolPart; onAnswer: OnAnswer }>) {
  const { state } = part;
  return (
    <div className="tool" data-state={state}>
      <details>
        <summary>
          <code>{getToolName(part)}</code> <span className="input">{JSON.stringify(part.input)}</span>
          <span className="state">{STATES[state]}</span>
        </summary>
        {state === 'output-available' && <pre>{asText(part.output)}</pre>}
        {state === 'output-error' && <pre>{part.errorText}</pre>}
      </details>
      {state === 'output-available' &&
        filesIn(part.output).map((file, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: they never change.
          <FileView key={index} file={file} />
        ))}
      {state === 'approval-requested' && (
        <div className="approval">
          <button type="button" onClick={() => onAnswer(part.approval.id, true)}>
            Approve
          </button>
          <button type="button" className="stop" onClick={() => onAnswer(part.approval.id, false)}>
            Deny
          </button>
        </div>
      )}
    </div>
  );
}

const STATES: Readonly<Record<ToolPart['state'], string>> = {
  'input-streaming': '…',
  'input-available': 'running',
  'approval-requested': 'waits for you',
  'approval-responded': 'answered',
  'output-available': 'done',
  'output-error': 'failed',
  'output-denied': 'denied',
};

const asText = (output: unknown): string => (typeof output === 'string' ? output : JSON.stringify(output, null, 2));
