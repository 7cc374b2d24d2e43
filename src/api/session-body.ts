import { z } from '@hono/zod-openapi';
import { ERROR_CODES } from '../domain/errors.ts';
import { RUN_KINDS, RUN_STATUSES } from '../domain/run/run.ts';
import { SESSION_STATUSES } from '../domain/run/session.ts';
import { WAIT_KINDS } from '../domain/run/waits-for.ts';
import { MESSAGE_ROLES } from '../domain/transcript/message.ts';
import { overridesBody } from './agent-overrides.ts';
import { costBody, orNull, timeBody, usageBody } from './responses.ts';

export const nameField = z.string().openapi({
  description:
    'Name for lists: the title, else the first words of the session, else the names of its first files. Before its first message: the key, else the agent.',
});

export const sessionBody = z
  .object({
    id: z.string(),
    key: z.string().nullable().openapi({
      description:
        'Your own name for the session. In a path, `key:` and the key stand for the id. Chats have the keys `ui:` and `openai:` with their own names.',
    }),
    parentSessionId: z.string().nullable().openapi({ description: 'The session of which a call began this one.' }),
    rootSessionId: z.string().nullable().openapi({ description: 'The session at the top of its tree; null: itself.' }),
    depth: z.int().openapi({ description: 'Levels below the root session.' }),
    forkedFrom: z.object({ sessionId: z.string(), messageId: z.string().nullable() }).nullable().openapi({
      description:
        'Source of a fork: its session, and the last copied message by its id in that session. The source may be deleted.',
    }),
    agent: z.string(),
    agentVersion: z.string().openapi({ description: 'Version of the session’s agent definition, overrides included.' }),
    overrides: overridesBody,
    name: nameField,
    title: z.string().nullable().openapi({ description: 'Title as it was set.' }),
    metadata: z.record(z.string(), z.string()),
    status: z.enum(SESSION_STATUSES),
    activeRunId: z.string().nullable(),
    compactingSince: timeBody
      .nullable()
      .openapi({ description: 'Start of the compaction that is at work. Messages are accepted meanwhile.' }),
    compactionCount: z.int().openapi({ description: 'Compactions that were completed.' }),
    lastCompactionAt: timeBody.nullable(),
    usage: usageBody,
    costUsd: costBody,
    steps: z.int().openapi({ description: 'Steps of all runs of the session.' }),
    expiresAt: timeBody.nullable().openapi({
      description: 'Time at which the session expires. The service deletes it within about an hour after this.',
    }),
    createdAt: timeBody,
    updatedAt: timeBody,
  })
  .openapi('Session');

export const waitBody = z
  .object({
    kind: z.enum(WAIT_KINDS).openapi({
      description:
        'A call requires an action (`approval`, `output`, `unknown_outcome`); no worker has taken the work (`worker`); all slots of the tenant are taken (`slot`); the provider gets a pause (`retry`); the context is changed first (`compaction`, `prune`).',
    }),
    since: timeBody.nullable(),
    until: timeBody.nullable(),
    toolNames: z.array(z.string()).openapi({ description: 'Names of the tools whose calls require an action.' }),
    count: z.int().openapi({ description: 'Number of the calls that require an action.' }),
  })
  .openapi('Wait', { description: 'Reason why an active run does not work on a step.' });

export const listedSessionBody = sessionBody
  .extend({
    externalKey: z
      .string()
      .nullable()
      .openapi({ description: 'Name that a client of a chat protocol gave the session.' }),
    hit: z
      .object({ messageId: z.string(), seq: z.int(), role: z.enum(MESSAGE_ROLES), text: z.string() })
      .nullable()
      .openapi({
        description:
          'Newest message in which the search `q` found its words, and its text around the first of them, at most 200 characters. Null: they are those of the session, or nothing was searched.',
      }),
    overview: z.object({
      lastWords: z
        .object({ role: z.enum(MESSAGE_ROLES), text: z.string(), at: timeBody })
        .nullable()
        .openapi({
          description: 'Last words of the session, at most 200 characters. An empty text was too large for a list.',
        }),
      lastRun: z
        .object({
          id: z.string(),
          kind: z.enum(RUN_KINDS),
          status: z.enum(RUN_STATUSES),
          reason: z.string().nullable(),
          errorCode: z.enum(ERROR_CODES).nullable(),
          steps: z.int(),
          maxSteps: z.int().nullable(),
          createdAt: timeBody,
          startedAt: timeBody.nullable(),
          finishedAt: timeBody.nullable(),
        })
        .nullable(),
      waitsFor: orNull(waitBody),
      context: z
        .object({ usedTokens: z.int(), usableTokens: z.int(), share: z.number() })
        .nullable()
        .openapi({ description: 'Size of the context after the last step, prune or compaction.' }),
      queued: z.int().openapi({ description: 'Queued messages, of which at most 1000 are counted.' }),
    }),
  })
  .openapi('ListedSession');
