import { createHash } from 'node:crypto';
import type { BatonClient } from '../client/client.ts';
import type { StepRequest } from '../client/steps.ts';
import { withoutCredentials } from '../domain/model/credentials.ts';
import { jsonSchema } from '../domain/transcript/message.ts';
import type { CaseTool, ShownMessage } from './case-file.ts';

/** What a model was shown in a step: every message in short. The first is the instructions, if there are any. */
export type Shown = Readonly<{
  agent: string;
  sha256: string | null;
  tools: readonly CaseTool[];
  messages: readonly ShownMessage[];
}>;

/** Removes keys and passwords. */
export type Clean = (text: string) => string;

const PAGE_SIZE = 200;

/** Instructions are kept whole: they are what is changed most. */
const MAX_INSTRUCTIONS_CHARS = 200_000;
const MAX_TEXT_CHARS = 4_000;

/** Reads what the model was shown in a step, in as many pages as it takes. */
export async function readShown(client: BatonClient, runId: string, step: number, clean: Clean): Promise<Shown> {
  const first = await client.runs.request(runId, step, { limit: PAGE_SIZE });
  const messages = [...first.messages];
  for (let after = first.next; after !== null; ) {
    const page = await client.runs.request(runId, step, { limit: PAGE_SIZE, after, attempt: first.attempt });
    messages.push(...page.messages);
    after = page.next;
  }
  const { agent, sha256 } = first;
  return { agent, sha256, tools: toolsOf(first, clean), messages: messages.map((message) => shorten(message, clean)) };
}

const toolsOf = ({ tools }: StepRequest, clean: Clean): CaseTool[] =>
  tools.map(({ name, description, inputSchema }) => ({
    name,
    description: clean(description),
    inputSchema: jsonSchema.parse(inputSchema),
  }));

type Message = StepRequest['messages'][number];

function shorten({ role, content }: Message, clean: Clean): ShownMessage {
  // A blob has another id wherever it is stored.
  const whole = clean(JSON.stringify(content)).replaceAll(/blob_[0-9a-f]{32}/g, 'blob');
  const most = role === 'system' ? MAX_INSTRUCTIONS_CHARS : MAX_TEXT_CHARS;
  const text = clean(content.map(toText).join('\n'));
  return { role, sha256: createHash('sha256').update(role).update(whole).digest('hex'), text: text.slice(0, most) };
}

/** A part for people. */
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

/** Values of variables whose names say that they are secret. */
export function cleanerFor(environment: Readonly<Record<string, string | undefined>>): Clean {
  const secrets = Object.entries(environment).flatMap(([name, value]) =>
    /(KEY|TOKEN|SECRET|PASSWORD)$/i.test(name) && value !== undefined ? [value] : [],
  );
  return (text) => withoutCredentials(text, secrets);
}
