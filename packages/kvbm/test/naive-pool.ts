/**
 * A second block pool for tests, written for plainness: every block is an object of its own, private ones too; chains are strings; each policy picks its
 * victim by looking at all blocks. Shares no code and no data structure with the package.
 */
interface Block {
  key: string | null;
  /** The block before; kept when that one is evicted. */
  parent: Block | null;
  depth: number;
  refs: number;
  frequency: number;
  hits: number;
  storedAt: number;
  releasedAt: number;
  worth: number;
  owner: Sequence | null;
}

export interface Sequence {
  shared: Block[];
  privates: number;
  tokens: number;
  hits: number;
  /** While suspended. */
  left: Block[];
  sharedBefore: number;
}

export class NaivePool {
  readonly removed: (string | null)[] = [];
  private cached: Block[] = [];
  private byKey = new Map<string, Block>();
  private running = new Set<Sequence>();
  private clock = 0;
  private level = 0;
  private small: Block[] = [];
  private main: Block[] = [];
  private ghosts: string[] = [];

  constructor(
    private readonly capacity: number,
    private readonly blockTokens: number,
    private readonly policy: string,
    private readonly costPerDepth: number,
  ) {}

  get active(): number {
    let count = this.cached.filter((block) => block.refs > 0).length;
    for (const sequence of this.running) count += sequence.privates;
    return count;
  }

  get idle(): number {
    return this.cached.filter((block) => block.refs === 0).length;
  }

  get free(): number {
    return this.capacity - this.active - this.idle;
  }

  open(chain: string[], prompt: number, chunk: number): Sequence | null {
    const sequence: Sequence = { shared: [], privates: 0, tokens: 0, hits: 0, left: [], sharedBefore: 0 };
    return this.start(sequence, chain, prompt, chunk) ? sequence : null;
  }

  resume(sequence: Sequence, chain: string[], target: number, chunk: number): boolean {
    return this.start(sequence, chain, target, chunk);
  }

  grow(sequence: Sequence, chain: string[], tokens: number): boolean {
    const needed = Math.ceil(tokens / this.blockTokens) - sequence.shared.length - sequence.privates;
    if (needed > this.free + this.idle) return false;
    this.cover(sequence, chain, tokens);
    return true;
  }

  close(sequence: Sequence): void {
    if (this.running.has(sequence)) this.giveUp(sequence, null);
    for (const block of sequence.left) block.owner = null;
    sequence.left = [];
  }

  suspend(sequence: Sequence): void {
    sequence.sharedBefore = sequence.shared.length;
    this.giveUp(sequence, sequence);
  }

  private start(sequence: Sequence, chain: string[], target: number, chunk: number): boolean {
    const most = Math.floor((target - 1) / this.blockTokens);
    const found: Block[] = [];
    for (const key of chain.slice(0, Math.max(0, most))) {
      const block = this.byKey.get(key);
      if (!block) break;
      found.push(block);
    }
    const left = found.length === sequence.sharedBefore ? sequence.left.filter((block) => this.cached.includes(block)) : [];
    const kept = Math.min(left.length, Math.max(0, most - found.length));
    const covered = Math.min(target, (found.length + kept) * this.blockTokens + chunk);
    const needed = Math.ceil(covered / this.blockTokens) - found.length - kept;
    if (needed > this.free + this.idle - found.filter((block) => block.refs === 0).length - kept) return false;
    for (const block of found) this.take(block);
    for (const block of left) this.drop(block);
    for (const block of sequence.left) block.owner = null;
    this.running.add(sequence);
    sequence.left = [];
    sequence.shared = found;
    sequence.privates = kept;
    sequence.hits = found.length + kept;
    sequence.tokens = (found.length + kept) * this.blockTokens;
    this.cover(sequence, chain, covered);
    return true;
  }

  private cover(sequence: Sequence, chain: string[], tokens: number): void {
    const needed = Math.ceil(tokens / this.blockTokens) - sequence.shared.length - sequence.privates;
    while (needed > this.free) this.evict();
    sequence.privates += Math.max(0, needed);
    sequence.tokens = Math.max(sequence.tokens, tokens);
    const full = Math.min(chain.length, Math.floor(tokens / this.blockTokens));
    for (let index = sequence.shared.length; index < full; index++) {
      const key = chain[index]!;
      sequence.privates--;
      let block = this.byKey.get(key);
      if (block) this.take(block);
      else block = this.put(key, sequence.shared.at(-1) ?? null, index, 1, null);
      sequence.shared.push(block);
    }
  }

  private giveUp(sequence: Sequence, owner: Sequence | null): void {
    this.running.delete(sequence);
    const full = Math.floor(sequence.tokens / this.blockTokens) - sequence.shared.length;
    const depth = sequence.shared.length;
    sequence.privates = 0;
    let before = sequence.shared.at(-1) ?? null;
    const tail: Block[] = [];
    for (let index = 0; index < full; index++) {
      before = this.put(null, before, depth, 0, owner);
      tail.push(before);
    }
    sequence.left = owner ? tail : [];
    for (const block of tail.reverse()) this.idleNow(block);
    if (this.policy === 's3-fifo' || this.policy === 'fifo') this.reorderTail(tail);
    for (const block of sequence.shared.slice().reverse()) if (--block.refs === 0) this.idleNow(block);
    sequence.shared = [];
  }

  /** Private blocks go tail first: the two policies that look at the time of storing must see the tail as the oldest. */
  private reorderTail(tailFirst: Block[]): void {
    const stamps = tailFirst.map((block) => block.storedAt).sort((a, b) => a - b);
    tailFirst.forEach((block, index) => {
      block.storedAt = stamps[index]!;
    });
    this.small = this.small.filter((block) => !tailFirst.includes(block)).concat(this.policy === 's3-fifo' ? tailFirst : []);
  }

  private put(key: string | null, parent: Block | null, depth: number, refs: number, owner: Sequence | null): Block {
    const block: Block = { key, parent, depth, refs, frequency: 1, hits: 0, storedAt: ++this.clock, releasedAt: 0, worth: 0, owner };
    this.cached.push(block);
    if (key !== null) this.byKey.set(key, block);
    if (this.policy === 's3-fifo') {
      const returning = key !== null && this.ghosts.includes(key);
      if (returning) this.ghosts[this.ghosts.indexOf(key)] = '';
      (returning ? this.main : this.small).push(block);
    }
    return block;
  }

  private take(block: Block): void {
    block.refs++;
    block.frequency++;
    block.hits = Math.min(3, block.hits + 1);
  }

  private idleNow(block: Block): void {
    block.releasedAt = ++this.clock;
    block.worth = this.level + block.frequency * (1 + this.costPerDepth * block.depth);
  }

  private drop(block: Block): void {
    this.cached.splice(this.cached.indexOf(block), 1);
    if (block.key !== null) this.byKey.delete(block.key);
    this.small = this.small.filter((other) => other !== block);
    this.main = this.main.filter((other) => other !== block);
  }

  private evict(): void {
    const victim = this.policy === 's3-fifo' ? this.s3Victim() : this.leastOf(this.policy);
    this.level = Math.max(this.level, victim.worth);
    this.drop(victim);
    this.removed.push(victim.key);
  }

  private leastOf(policy: string): Block {
    const leafOnly = policy === 'lineage' || policy === 'cost-aware';
    const order: Record<string, (block: Block) => number[]> = {
      lru: (block) => [block.releasedAt],
      fifo: (block) => [block.storedAt],
      lfu: (block) => [block.frequency, block.releasedAt],
      lineage: (block) => [block.releasedAt],
      'cost-aware': (block) => [block.worth, block.releasedAt],
    };
    const candidates = this.cached.filter(
      (block) => block.refs === 0 && !(leafOnly && this.cached.some((other) => other.parent === block)),
    );
    const rank = order[policy]!;
    candidates.sort((a, b) => rank(a)[0]! - rank(b)[0]! || (rank(a)[1] ?? 0) - (rank(b)[1] ?? 0));
    return candidates[0]!;
  }

  private s3Victim(): Block {
    const share = Math.max(1, Math.floor(this.capacity * 0.1));
    for (;;) {
      const small = this.small.some((block) => block.refs === 0);
      const main = this.main.some((block) => block.refs === 0);
      const fromSmall = small && (this.small.length >= share || !main);
      const queue = fromSmall ? this.small : this.main;
      const oldest = queue[0]!;
      if (fromSmall && oldest.hits > 1) {
        oldest.hits = 0;
        this.main.push(this.small.shift()!);
      } else if (!fromSmall && oldest.hits > 0) {
        oldest.hits--;
        queue.push(queue.shift()!);
      } else if (oldest.refs > 0) {
        queue.push(queue.shift()!);
      } else {
        if (fromSmall && oldest.key !== null) {
          this.ghosts.push(oldest.key);
          if (this.ghosts.length > this.capacity - share) this.ghosts.shift();
        }
        return oldest;
      }
    }
  }
}
