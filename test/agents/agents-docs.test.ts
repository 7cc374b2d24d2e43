import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { agentFileSchema } from '../../src/agents/agent.ts';
import { SETTING_FIELDS } from '../../src/domain/model/model-settings.ts';
import { FINAL_ANSWER_WITHIN_MS } from '../../src/domain/tunables.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const docs = readFileSync(path.join(ROOT, 'docs/agents.md'), 'utf8');
const blocks = [...docs.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, block]) => parse(block ?? '') as object);

describe('docs/agents.md', () => {
  it('shows every limit and every setting, as an agent may have them', () => {
    const agent = agentFileSchema.parse(Object.assign({ name: 'a', model: 'p/m' }, ...blocks));
    for (const key of ['limits', 'settings'] as const) {
      const { innerType } = agentFileSchema.shape[key].def;
      expect(Object.keys(agent[key]).toSorted()).toEqual(Object.keys(innerType.shape).toSorted());
    }
  });

  it('names the fields that settings arrive in', () => {
    const table = docs.slice(docs.indexOf('| | `openai`'));
    for (const fields of Object.values(SETTING_FIELDS)) {
      for (const field of Object.values(fields))
        if (field !== null) expect(table).toContain(`\`${field.split('.')[0]}`);
    }
  });

  it('names the time of a final answer', () => {
    expect(docs).toContain(`It has ${FINAL_ANSWER_WITHIN_MS / 1_000} seconds`);
  });
});
