import { createHash } from 'node:crypto';
import type { BatonClient } from '../client/client.ts';
import type { StepRequest } from '../client/contract.ts';
import { withoutCredentials } from '../domain/model/credentials.ts';
import { type Clean, withoutSecrets } from '../domain/model/secret-fields.ts';
import { isSecretName } from '../domain/model/secret-names.ts';
import { jsonSchema } from '../domain/transcript/message.ts';
import { hashContents } from '../model/request-hash.ts';
import type { CaseTool, ShownMessage } from './case-file.ts';

/** The request that a model was shown in a step, with shortened messages. The instructions, if any, come first. */
export type Shown = Readonly<{
  agent: string;
  sha256: string | null;
  tools: readonly CaseTool[];
  messages: readonly ShownMessage[];
}>;

const PAGE_SIZE = 200;

/** Instructions are kept whole, because they are changed most often. */
const MAX_INSTRUCTIONS_CHARS = 200_000;
const MAX_TEXT_CHARS = 4_000;

/**
 * Reads the request that the model was shown in a step, page by page. Most messages of a step were in the step before,
 * so each message is shortened only once.
 */
export function createShownReader(client: BatonClient, clean: Clean): (runId: string, step: number) => Promise<Shown> {
  const cache = new Map<string, Cleaned>();
  const cleanOf = (message: Message): Cleaned => {
    const key = JSON.stringify([message.role, message.content]);
    const cleaned = cache.get(key) ?? shorten(message, clean);
    cache.set(key, cleaned);
    return cleaned;
  };
  return async (runId, step) => {
    const first = await client.runs.request(runId, step, { limit: PAGE_SIZE });
    const messages = [...first.messages];
    for (let after = first.next; after !== null; ) {
      const page = await client.runs.request(runId, step, { limit: PAGE_SIZE, after, attempt: first.attempt });
      messages.push(...page.messages);
      after = page.next;
    }
    const cleaned = messages.map(cleanOf);
    const sha256 = first.verified === true ? hashOf(cleaned) : null;
    return {
      agent: first.agent,
      sha256,
      tools: toolsOf(first, clean),
      messages: cleaned.map(({ message: shown }) => shown),
    };
  };
}

/** The hash of the messages, computed as by the service. */
function hashOf(cleaned: readonly Cleaned[]): string {
  const [first, ...others] = cleaned;
  if (first?.message.role !== 'system') return hashContents('', cleaned.map(toContents));
  return hashContents(String(first.content[0]?.['text'] ?? ''), others.map(toContents));
}

const toContents = ({ message: { role }, content }: Cleaned) => ({ role, content });

const toolsOf = ({ tools }: StepRequest, clean: Clean): CaseTool[] =>
  tools.map(({ name, description, inputSchema }) => ({
    name,
    description: clean(description),
    inputSchema: jsonSchema.parse(withoutSecrets(inputSchema, clean)),
  }));

type Message = StepRequest['messages'][number];
type Cleaned = Readonly<{ message: ShownMessage; content: Message['content'] }>;

function shorten({ role, content: fullContent }: Message, clean: Clean): Cleaned {
  const content = fullContent.map((part) => withoutSecrets(part, clean));
  // A blob gets another id in each place of storage, so ids do not count.
  const whole = JSON.stringify(content).replaceAll(/blob_[0-9a-f]{32}/g, 'blob');
  const most = role === 'system' ? MAX_INSTRUCTIONS_CHARS : MAX_TEXT_CHARS;
  const text = content.map(toText).join('\n').slice(0, most);
  const sha256 = createHash('sha256').update(role).update(whole).digest('hex');
  return { message: { role, sha256, text }, content };
}

/** A part as text for people. */
function toText({ type, ...part }: Message['content'][number]): string {
  if ((type === 'text' || type === 'reasoning') && typeof part['text'] === 'string') return part['text'];
  if (type === 'tool-call') return `call of ${String(part['toolName'])}: ${JSON.stringify(part['input'])}`;
  if (type === 'tool-result') return `result of ${String(part['toolName'])}: ${outputText(part['output'])}`;
  return `${type}: ${JSON.stringify(part)}`;
}

function outputText(output: unknown): string {
  const value = typeof output === 'object' && output !== null && 'value' in output ? output.value : output;
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

/** Removes credentials, and the values of variables whose names say that they are secret. */
export function cleanerFor(environment: Readonly<Record<string, string | undefined>>): Clean {
  const secrets = Object.entries(environment).flatMap(([name, value]) =>
    (isSecretName(name) || /KEY$/i.test(name)) && value !== undefined ? [value] : [],
  );
  return (text) => withoutCredentials(text, secrets);
}
