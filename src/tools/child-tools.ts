import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';
import { formatId, parseId } from '../domain/ids.ts';
import type { Db } from '../store/db/database.ts';
import { askToStop, listChildren, readLastWords } from '../store/lists/child-lists.ts';
import type { ServerTool, ToolContext } from './tool.ts';

const MAX_LISTED = 200;

const childField = z.strictObject({ session: z.string().describe('The `session` that a call of an agent returned.') });

/** The tools by which a model looks after the agents that work for it in the background. */
export function createChildTools(db: Db): readonly ServerTool[] {
  const ownSession = ({ sessionId }: ToolContext): string => idOf(sessionId);
  return [
    {
      name: 'list_children',
      description: 'Lists the agents that you have given tasks in this session, the last one first, and how they are.',
      inputSchema: z.strictObject({}),
      readOnly: true,
      execute: async (_, context) => {
        const children = await listChildren(db, { parentSessionId: ownSession(context), limit: MAX_LISTED });
        return children.map(({ agent, sessionId, runId, state, status, asks }) => ({
          ...{ agent, session: formatId('session', sessionId), run: formatId('run', runId), status: status ?? state },
          ...(asks > 0 && { waitsForPerson: true }),
        }));
      },
    },
    {
      name: 'read_child',
      description: 'Reads the last words of an agent that works for you, also while it is at work.',
      inputSchema: childField,
      readOnly: true,
      execute: async (input, context) => {
        const words = await readLastWords(db, ownSession(context), childOf(input));
        if (words === null) throw unknownChild(childOf(input));
        return words;
      },
    },
    {
      name: 'stop_child',
      description: 'Stops an agent that works for you in the background. You are not told of its end any more.',
      inputSchema: childField,
      idempotent: true,
      execute: async (input, context) => {
        const stopped = await askToStop(db, ownSession(context), childOf(input));
        return stopped ? 'It stops.' : 'It was not at work.';
      },
    },
  ];
}

function childOf(input: unknown): string {
  const { data } = childField.safeParse(input);
  const id = data === undefined ? null : parseId('session', data.session);
  if (id === null)
    throw new BatonError('invalid_request', 'session: is the `session` that a call of an agent returned');
  return id;
}

function idOf(sessionId: string): string {
  const id = parseId('session', sessionId);
  if (id === null) throw new Error(`not the id of a session: ${sessionId}`);
  return id;
}

const unknownChild = (id: string): BatonError =>
  new BatonError('not_found', `session: ${formatId('session', id)} is no session of an agent that works for you`);
