import type { Reply } from '../../simulator/reply.ts';
import type { Agent } from '../../src/agents/agent.ts';
import { contextPolicySchema } from '../../src/domain/context/limits/policy.ts';
import type { SessionEvent } from '../../src/domain/run/events.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import type { Tool } from '../../src/tools/tool.ts';
import type { TestService } from '../support/service.ts';

/** Prose of about this many tokens. Different seeds share no text. */
export function prose(seed: number, tokens: number): string {
  const words = ['river', 'stone', 'engine', 'letter', 'garden', 'window', 'signal', 'copper', 'harbor', 'violet'];
  return Array.from({ length: Math.floor(tokens * 0.9) }, (_, at) => words[(seed * 7 + at * 3) % words.length]).join(
    ' ',
  );
}

/** A tool that returns prose; the path says how many tokens. */
export const readTool: Tool = {
  name: 'read',
  description: 'Reads a file.',
  inputSchema: { type: 'object', properties: { path: { type: 'string' }, tokens: { type: 'number' } } },
  readOnly: true,
  execute: async (input) => {
    const { path, tokens } = input as { path: string; tokens: number };
    return `contents of ${path}: ${prose(path.length, tokens)}`;
  },
};

/** Replies that read this many files of this size, and a closing one. */
export function readingReplies(count: number, tokens: number, closing = 'All read.'): Reply[] {
  const reads = Array.from({ length: count }, (_, at): Reply => {
    return { toolCalls: [{ name: 'read', input: { path: `src/file-${at}.ts`, tokens } }] };
  });
  return [...reads, { text: closing }];
}

/** An agent of the test service with this policy. */
export function agentWith(context: Record<string, unknown>, rest: Partial<Agent> = {}): Partial<Agent> {
  return { tools: ['test'], context: contextPolicySchema.parse(context), ...rest };
}

export async function eventsOf(service: TestService, sessionId: string, type?: string): Promise<SessionEvent[]> {
  const events = await readEvents(service.deps.db, 'default', sessionId, { afterSeq: 0, limit: 10_000 });
  return type === undefined ? events : events.filter((event) => event.type === type);
}

/** The session's compactions, oldest first. */
export function roundsOf(service: TestService, sessionId: string) {
  const rounds = service.deps.db.selectFrom('compactions').selectAll().where('session_id', '=', sessionId);
  return rounds.orderBy('round').execute();
}

export function sessionOf(service: TestService, sessionId: string) {
  return service.deps.db.selectFrom('sessions').selectAll().where('id', '=', sessionId).executeTakeFirstOrThrow();
}

/** The simulator's requests by purpose. */
export function requestsOf({ simulator }: TestService) {
  const steps = simulator.requests.filter(({ summary }) => !summary);
  const summaries = simulator.requests.filter(({ summary }) => summary);
  const violations = simulator.requests.flatMap(({ violations: found }) => found);
  return { steps, summaries, violations };
}
