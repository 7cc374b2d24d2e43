import type { ReactNode } from 'react';

/** Content that may be wider than the screen, such as a table. It scrolls sideways by itself. */
export function Wide({
  label,
  className = '',
  children,
}: Readonly<{ label: string; className?: string; children: ReactNode }>): ReactNode {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region must be reached by keys.
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for controls, and a section would be a landmark.
    <div role="group" aria-label={label} className={`overflow-x-auto ${className}`} tabIndex={0} data-wide="">
      {children}
    </div>
  );
}
