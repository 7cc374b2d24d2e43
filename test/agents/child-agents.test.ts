import { describe, expect, it } from 'vitest';
import { agentFileSchema, agentSchema } from '../../src/agents/agent.ts';
import { checkChildren } from '../../src/agents/child-agents.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { createToolCatalogue } from '../../src/tools/catalogue.ts';

const agents = (children: Readonly<Record<string, readonly string[]>>) =>
  createCatalogue(
    Object.entries(children).map(([name, tools]) =>
      agentSchema.parse({ name, model: 'simulated/any', tools: tools.map((agent) => ({ agent })) }),
    ),
  );

const check = (set: ReturnType<typeof agents>, name: string) => () => checkChildren(set.get(name), set);

describe('the agents to which an agent gives tasks', () => {
  it('may share a child', () => {
    const set = agents({ lead: ['a', 'b'], a: ['c'], b: ['c'], c: [] });
    for (const name of set.names()) expect(check(set, name)).not.toThrow();
  });

  it.each([
    ['itself', { lead: ['lead'] }, 'tools.0.agent: an agent cannot be its own child'],
    ['one that there is not', { lead: ['worker'], worker_1: [] }, 'tools.0.agent: there is no agent named worker'],
    [
      'a circle',
      { lead: ['a'], a: ['b'], b: ['lead'] },
      'tools.0.agent: the agents make a circle: lead → a → b → lead',
    ],
  ])('may not be %s', (_, children, message) => {
    expect(check(agents(children), 'lead')).toThrow(message);
  });

  it('is checked in time that grows with the agents, not with the ways between them', () => {
    const layers = Array.from({ length: 40 }, (_, no) => [`a${no}`, `b${no}`] as const);
    const set = agents(
      Object.fromEntries(layers.flatMap((layer, no) => layer.map((name) => [name, [...(layers[no + 1] ?? [])]]))),
    );
    expect(check(set, 'a0')).not.toThrow();
  });
});

describe('the tool of a child', () => {
  const parse = (source: object) =>
    agentFileSchema.safeParse({ name: 'lead', model: 'simulated/any', tools: [source] });

  it('has the name of the agent, and no worker runs it', async () => {
    const { data } = parse({ agent: 'researcher', mode: 'background', limits: { maxSteps: 3 }, maxParallel: 2 });
    const [tool] = await createToolCatalogue({ sets: {} })({
      ...agentSchema.parse({ ...data, model: 'simulated/any' }),
    });
    expect(tool).toMatchObject({
      name: 'researcher',
      child: { agent: 'researcher', mode: 'background', limits: { maxSteps: 3 }, maxParallel: 2 },
    });
    expect(tool?.execute).toBeUndefined();
  });

  it.each([
    [{ agent: 'researcher', mode: 'later' }, 'mode'],
    [{ agent: 'researcher', maxParallel: 0 }, 'maxParallel'],
    [{ agent: 'researcher', limits: { maxSteps: 0 } }, 'limits'],
    [{ module: './a.ts', mode: 'wait' }, 'about agent'],
    [{ agent: 'researcher', deferred: true }, 'about mcp'],
  ])('is refused with %j', (source, words) => {
    const { error } = parse(source);
    expect(JSON.stringify(error?.issues)).toContain(words);
  });
});
