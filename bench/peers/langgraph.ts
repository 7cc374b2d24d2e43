// LangGraph.js: a session is a thread, a step is a node that goes on to itself. The checkpointer writes the state after
// every step: the whole list of messages anew.
import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import type { ModelMessage } from 'ai';
import type { Pool } from 'pg';
import { callTools, firstMessage, hasCalls, runModelStep } from '../chain/step.ts';
import { contest, openPool, readSyncCommit } from './contest.ts';
import { askModelDurably, countTexts, TEXT_TABLE, writeText } from './durable-text.ts';

const State = Annotation.Root({
  messages: Annotation<ModelMessage[]>({ reducer: (known, added) => [...known, ...added], default: () => [] }),
  left: Annotation<number>(),
});

const wholeSteps = (checkpointer: PostgresSaver) =>
  new StateGraph(State)
    .addNode('step', async ({ messages, left }) => ({
      messages: await runModelStep(messages),
      left: left - 1,
    }))
    .addEdge(START, 'step')
    .addConditionalEdges('step', ({ left }) => (left > 0 ? 'step' : END), ['step', END])
    .compile({ checkpointer });

/** A node for the model call and one for the tool calls. No stream of it is durable, so the text goes into a table. */
const stepsInParts = (checkpointer: PostgresSaver, pool: Pool) =>
  new StateGraph(State)
    .addNode('model', async ({ messages }, { configurable }) => ({
      messages: await askModelDurably(messages, (text) => writeText(pool, String(configurable?.['thread_id']), text)),
    }))
    .addNode('tools', async ({ messages }) => ({ messages: await callTools(messages.slice(-1)) }))
    .addEdge(START, 'model')
    .addConditionalEdges('model', ({ messages }) => (hasCalls(messages.slice(-1)) ? 'tools' : END), ['tools', END])
    .addEdge('tools', 'model')
    .compile({ checkpointer });

await contest('langgraph', async ({ databaseUrl, guarantees, stack }) => {
  const pool = openPool(stack, databaseUrl, 10);
  await pool.query(TEXT_TABLE);
  const checkpointer = new PostgresSaver(pool);
  await checkpointer.setup();
  const graph = guarantees === 'equal' ? stepsInParts(checkpointer, pool) : wholeSteps(checkpointer);
  return {
    syncCommit: await readSyncCommit(pool),
    async run(sessions, steps) {
      await Promise.all(
        sessions.map((thread_id) =>
          graph.invoke(
            { messages: [firstMessage(steps)], left: steps },
            { configurable: { thread_id }, durability: 'sync', recursionLimit: 2 * steps + 1 },
          ),
        ),
      );
    },
    countTexts: (prefix) => countTexts(pool, prefix),
    async countStored(prefix) {
      const { rows } = await pool.query<{ count: number }>(
        `select count(*)::int as count from checkpoints
          where thread_id like $1 and (metadata->>'step')::int > 0 and metadata->>'source' = 'loop'`,
        [`${prefix}%`],
      );
      return rows[0]?.count ?? 0;
    },
  };
});
