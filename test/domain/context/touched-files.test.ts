import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  formatResources,
  mergeResources,
  parseResources,
  type TouchedResource,
  touchedResources,
} from '../../../src/domain/context/compaction/touched-files.ts';
import type { Json, ToolPart } from '../../../src/domain/transcript/message.ts';
import { assistantOf, callOf } from './measure-view.ts';

const touched = (toolName: string, input: Json, rest: Partial<ToolPart> = {}) =>
  touchedResources([assistantOf(1, callOf(input, 'done', { toolName, ...rest }))]);

const WIDE = { entries: 100, chars: 100_000 };

describe('touched resources', () => {
  it.each<[string, Json, TouchedResource[]]>([
    ['read', { path: 'src/a.ts', limit: 5 }, [{ path: 'src/a.ts', access: 'read' }]],
    ['edit', { path: 'src/a.ts', oldText: 'path: b.ts' }, [{ path: 'src/a.ts', access: 'edited' }]],
    ['WriteFile', { filePath: 'b.md', content: '...' }, [{ path: 'b.md', access: 'edited' }]],
    ['str_replace_editor', { command: 'view', path: '/x' }, [{ path: '/x', access: 'read' }]],
    ['str_replace_editor', { command: 'str_replace', path: '/x' }, [{ path: '/x', access: 'edited' }]],
    ['fetch', { url: 'https://example.com/a' }, [{ path: 'https://example.com/a', access: 'read' }]],
    [
      'multi_edit',
      { edits: [{ file_path: 'a' }, { file_path: 'b' }] },
      [
        { path: 'b', access: 'edited' },
        { path: 'a', access: 'edited' },
      ],
    ],
    [
      'read_many',
      { paths: ['a', 'b'] },
      [
        { path: 'b', access: 'read' },
        { path: 'a', access: 'read' },
      ],
    ],
    [
      'apply_patch',
      { patch: '*** Begin Patch\n*** Update File: src/c.ts\n@@' },
      [{ path: 'src/c.ts', access: 'edited' }],
    ],
    ['apply_patch', '--- a/d.ts\n+++ b/d.ts\n@@', [{ path: 'd.ts', access: 'edited' }]],
    ['bash', { command: 'rm src/a.ts' }, []],
    ['grep', { pattern: 'x', path: '.' }, []],
    ['search', { profile: 'x', filter: 'y' }, []],
  ])('of %s %j', (toolName, input, expected) => {
    expect(touched(toolName, input)).toEqual(expected);
  });

  it('are not those of a call that was denied, but those of one whose outcome is not known', () => {
    expect(touched('write', { path: 'a' }, { state: 'denied' })).toEqual([]);
    expect(touched('write', { path: 'a' }, { state: 'unknown' })).toEqual([{ path: 'a', access: 'edited' }]);
  });

  it('stand once each, the newest first, edited if any call edited them', () => {
    const calls = [
      callOf({ path: 'a' }, '', { toolName: 'edit' }),
      callOf({ path: 'b' }, ''),
      callOf({ path: 'a' }, ''),
    ];
    expect(touchedResources([assistantOf(1, ...calls)])).toEqual([
      { path: 'a', access: 'edited' },
      { path: 'b', access: 'read' },
    ]);
  });
});

const path = fc
  .oneof(
    fc.string({ minLength: 1, maxLength: 30 }),
    fc.constantFrom('</touched_resources>', '"quoted"', 'read x', 'a\\b'),
  )
  .map((text) => text.trim())
  .filter((text) => text !== '');
const resources = fc
  .array(fc.record({ path, access: fc.constantFrom('edited' as const, 'read' as const) }), { maxLength: 60 })
  .map((list) => mergeResources(list, []));

// Field bugs: codex#13279, codex#34095, cline#5790: everything is read, or done, again after each compaction.
describe('the list in the view', () => {
  it('is read back as it was written, whatever the names are', () => {
    fc.assert(
      fc.property(resources, (list) => {
        expect(parseResources(`text before\n${formatResources(list, WIDE)}`)).toEqual(list);
      }),
    );
  });

  it('keeps its bounds, drops what was read before what was edited, and says how many it left out', () => {
    fc.assert(
      fc.property(resources, fc.integer({ min: 1, max: 20 }), (list, entries) => {
        const kept = parseResources(formatResources(list, { entries, chars: 100_000 }));
        expect(kept.length).toBe(Math.min(entries, list.length));
        const edited = list.filter(({ access }) => access === 'edited');
        expect(kept.filter(({ access }) => access === 'edited').length).toBe(Math.min(entries, edited.length));
      }),
    );
    const many = Array.from({ length: 50 }, (_, at): TouchedResource => ({ path: `f${at}`, access: 'edited' }));
    expect(formatResources(many, { entries: 40, chars: 10_000 })).toContain('(10 more');
    expect(formatResources(many, { entries: 40, chars: 100 }).length).toBeLessThan(220);
  });
});
