import type { ServerSpec, TreeSpec } from '@braess/fabric';

/** NVLink 450 GB/s each way and a 400 Gb/s NIC a GPU (NVIDIA H100 and ConnectX-7 data sheets), PCIe 5.0 x16 (PCI-SIG). Latencies are made up. */
export const H100_SERVER: ServerSpec = {
  gpus: 8,
  nics: 8,
  nvlink: { bytesPerSecond: 450e9, latencyNs: 500 },
  pcie: { bytesPerSecond: 63e9, latencyNs: 500 },
  nic: { bytesPerSecond: 50e9, latencyNs: 600 },
};

export function fatTree(pods: number, racksPerPod: number, nodesPerRack: number, change: Partial<TreeSpec> = {}): TreeSpec {
  return {
    kind: 'fat-tree',
    pods,
    racksPerPod,
    nodesPerRack,
    server: H100_SERVER,
    spinesPerPod: 4,
    uplinksPerLeaf: nodesPerRack * 8,
    leafUplink: { bytesPerSecond: 50e9, latencyNs: 700 },
    cores: 16,
    uplinksPerPod: racksPerPod * nodesPerRack * 8,
    coreUplink: { bytesPerSecond: 50e9, latencyNs: 800 },
    ...change,
  };
}

/** The four-tier cluster of the NetKV paper (arXiv 2606.03910): 450, 12.5, 6.25 GB/s and, at 4:1, 3.125 GB/s a link. */
export function fourTierCluster(core = 4, by: 'slower-links' | 'fewer-links' = 'slower-links'): TreeSpec {
  return {
    kind: 'fat-tree',
    pods: 2,
    racksPerPod: 2,
    nodesPerRack: 2,
    // One NIC an instance of four GPUs.
    server: { ...H100_SERVER, nics: 2, nic: { bytesPerSecond: 12.5e9, latencyNs: 600 } },
    spinesPerPod: 3,
    uplinksPerLeaf: 12,
    leafUplink: { bytesPerSecond: 6.25e9, latencyNs: 700 },
    cores: 3,
    uplinksPerPod: 24,
    coreUplink: { bytesPerSecond: 12.5e9, latencyNs: 800 },
    oversubscription: { core, by },
  };
}
