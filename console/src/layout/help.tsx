import type { ReactNode } from 'react';
import { currentBindings } from '../keys.ts';
import { Dialog } from '../ui/dialog.tsx';

/** The keys of the page that is shown. */
export function KeyHelp({ isOpen, close }: Readonly<{ isOpen: boolean; close: () => void }>): ReactNode {
  const groups = isOpen ? Map.groupBy(currentBindings(), ({ group }) => group) : new Map();
  return (
    <Dialog isOpen={isOpen} close={close} title="Keys" width={groups.size > 1 ? 'max-w-2xl' : 'max-w-md'}>
      <div className={`columns-1 gap-8 ${groups.size > 1 ? 'sm:columns-2' : ''}`}>
        {[...groups].map(([group, bindings]) => (
          <section key={group} className="mb-4 break-inside-avoid">
            <h3 className="mb-1 text-sm text-dim">{group}</h3>
            <dl className="grid grid-cols-[1fr_auto] gap-x-3 gap-y-1">
              {bindings.map(({ keys, words }: Readonly<{ keys: string; words: string }>) => (
                <div key={keys} className="contents">
                  <dt>{words}</dt>
                  <dd className="flex items-start gap-1">
                    {keys
                      .replace('Mod+', 'Ctrl ')
                      .split(' ')
                      .map((key) => (
                        <kbd key={key} className="kbd">
                          {key}
                        </kbd>
                      ))}
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
