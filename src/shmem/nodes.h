/*
 * shmem/nodes.h - the duration weights of nodes, shared by all backends.
 *
 * What a node may have in flight, who waits and who goes first is decided by core/dispatch.h; here
 * are its memory, its lock and its latches.  A node is a machine, so its label means the same in
 * all databases; a server without one is a node of its own, which its address names.
 *
 * Only LONG and EPIC work comes here, some requests a second at most, so there is one lock for all
 * nodes.  It is held with no other; nothing raises or allocates inside.  What a process has here is
 * given back at its exit.
 *
 * Use: take weight, then permits of the server's key, then say how that went; see core/dispatch.h.
 */
#ifndef INFER_SHMEM_NODES_H
#define INFER_SHMEM_NODES_H

#include "postgres.h"

#include "core/dispatch.h"
#include "shmem/waiter.h"

#define INFER_NO_NODE INFER_NOBODY

/* The weight of one request, by the settings; 0 = it weighs nothing, and does not come here. */
extern int infer_nodes_weight(InferDuration duration);

/* As infer_dispatch_take(); ask->max is set here.  *node = INFER_NO_NODE: no room in the tables;
 * ask again in a while. */
extern int infer_nodes_take(InferDispatchAsk *ask, int *node);
extern void infer_nodes_done(int node, int granted, int used);
extern void infer_nodes_give(int node, int weight);
extern void infer_nodes_leave(int node);

/* Copies up to size of those who wait for weight of node i, in order, and its label into a buffer
 * of INFER_DISPATCH_LABEL.  Returns how many there are; -1 beyond the last node. */
extern int infer_nodes_waiters(int i, InferWaiter *waiters, int size, char *label);

/* For segment.c: memory, LWLock, and where they are. found: another process filled them. */
union LWLockPadded;
extern size_t infer_nodes_shmem_size(void);
extern void infer_nodes_shmem_attach(void *memory, union LWLockPadded *locks, bool found);

#endif
