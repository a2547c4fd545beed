/* Wake-ups of the planner (docs/model-checking.md). Is what was written, and told, ever left without a pass?

   A writer writes a row and then sends a wake-up that names it. The queue is FIFO with one message group: all that is
   visible is delivered at once, and nothing more until it was deleted or its hidden time is over. A pass reads, commits
   under the condition that nothing moved on since, and deletes what woke it.

   A step is one effect outside, and after it the reads on which the next effect depends: reads are as old as they can
   be. Every step prints its name, and what is stored after it; tests/formal replays that on the code. */

#ifndef DEATHS
#define DEATHS 2         /* planners that die, anywhere, and passes that outlive their hidden time */
#endif
#ifndef WRITES
#define WRITES 2         /* of the first workload; the other is written once */
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 4       /* of one pass to commit, as _ATTEMPTS_MAX in shared/usecases/provisioning/provision.py */
#endif
#define WORKLOADS 2
#define PLANNERS 2
#define MESSAGES 3       /* kinds: one that names each workload, one that names nobody */
#define NOBODY 2
#define NO_PLANNER 9

byte row[WORKLOADS];     /* replicas that are wanted, which is the generation of the row too */
byte placed[WORKLOADS];  /* replicas that are placed */
bool listed[WORKLOADS];  /* what the index shows: there is something to place */
#ifdef POOL_LATER
bool pool;               /* there is a node pool: before, nothing can be placed */
bool pool_told;
byte writers = 3;
#else
bool pool = true;
bool pool_told = true;
byte writers = 2;
#endif

byte visible[MESSAGES];
byte flying[MESSAGES];
byte holder = NO_PLANNER; /* who received what is in flight */

bool told[WORKLOADS];    /* the wake-up for the row as it is was taken by the queue */
byte busy;
byte deaths;
bool dead[PLANNERS];

typedef Pass {
    byte held[MESSAGES];
    byte row[WORKLOADS];
    byte placed[WORKLOADS];
    bool wants;          /* the pass read demand that it can place */
    byte attempts
};
Pass pass[PLANNERS];

#define NEEDS(w) (row[w] != placed[w])
#ifdef ANY_LAG           /* mutant: a pass that names nobody waits for no index */
#define INDEX_SHOWS_ALL true
#else
#define INDEX_SHOWS_ALL (listed[0] == NEEDS(0) && listed[1] == NEEDS(1))
#endif
#define EMPTY (!visible[0] && !visible[1] && !visible[2] && !flying[0] && !flying[1] && !flying[2])

inline shown() {
    printf("= row %d %d placed %d %d listed %d %d pool %d visible %d flying %d\n", row[0], row[1], placed[0], placed[1],
        listed[0], listed[1], pool, visible[0] + visible[1] + visible[2], flying[0] + flying[1] + flying[2])
}

/* Whom the pass finds: who is listed, who is named, who has a node. Their rows are then read themselves. */
#ifdef UNNAMED           /* mutant: wake-ups name nobody, and no pass waits for the index */
#define FOUND(p, w) (listed[w] || placed[w])
#else
#define FOUND(p, w) (listed[w] || (pass[p].held[w] && NEEDS(w)) || placed[w])
#endif
#define NEEDING(p) (listed[0] || listed[1] || (pass[p].held[0] && NEEDS(0)) || (pass[p].held[1] && NEEDS(1)))

inline forget_demand(p) {
    pass[p].row[0] = 0; pass[p].row[1] = 0; pass[p].placed[0] = 0; pass[p].placed[1] = 0; pass[p].wants = false
}

inline read_demand(p) {
    forget_demand(p);
    if :: FOUND(p, 0) -> pass[p].row[0] = row[0]; pass[p].placed[0] = placed[0]
       :: else fi;
    if :: FOUND(p, 1) -> pass[p].row[1] = row[1]; pass[p].placed[1] = placed[1]
       :: else fi;
    if
    :: pool && (pass[p].row[0] != pass[p].placed[0] || pass[p].row[1] != pass[p].placed[1]) -> pass[p].wants = true
    :: else -> forget_demand(p)
    fi
}

#define UNMOVED(p, w) (pass[p].row[w] == pass[p].placed[w] || (row[w] == pass[p].row[w] && placed[w] == pass[p].placed[w]))

inline do_commit(p) {
    if :: pass[p].row[0] != pass[p].placed[0] -> placed[0] = pass[p].row[0] :: else fi;
    if :: pass[p].row[1] != pass[p].placed[1] -> placed[1] = pass[p].row[1] :: else fi
}

inline forget(p) {
    pass[p].held[0] = 0; pass[p].held[1] = 0; pass[p].held[2] = 0;
    pass[p].attempts = 0; forget_demand(p)
}

inline delete_held(p) {
    if :: holder == p -> flying[0] = 0; flying[1] = 0; flying[2] = 0; holder = NO_PLANNER
       :: else fi       /* its receipts are no good any more */
}

proctype Writer(byte w; byte writes) {
    byte n = 0;
    do
    :: n < writes ->
        atomic { row[w]++; told[w] = false; n++; printf("> write %d\n", w); shown() }
#ifdef DEDUPLICATED      /* mutant: the queue drops a wake-up while it remembers one like it */
        atomic {
            if :: n == 1 -> visible[w]++ :: else fi;
#else
        atomic {
            visible[w]++;
#endif
            told[w] = true; printf("> wake %d\n", w); shown()
        }
    :: n == writes -> break
    od;
    atomic { writers--; n = 0 }
}

proctype Owner() {       /* who makes the pool: a change that names nobody */
    atomic { pool = true; printf("> pool\n"); shown() }
    atomic { visible[NOBODY]++; pool_told = true; printf("> wake %d\n", NOBODY); shown() }
    writers--
}

proctype Index(byte w) {
end:
    do :: atomic { listed[w] != NEEDS(w) -> listed[w] = NEEDS(w); printf("> index %d\n", w); shown() } od
}

proctype Planner(byte p) {
end:
    do
    :: atomic {
        holder == NO_PLANNER && (visible[0] || visible[1] || visible[2]) ->
        busy++;
        pass[p].held[0] = visible[0]; pass[p].held[1] = visible[1]; pass[p].held[2] = visible[2];
        flying[0] = visible[0]; flying[1] = visible[1]; flying[2] = visible[2];
        visible[0] = 0; visible[1] = 0; visible[2] = 0;
        holder = p;
        if :: !NEEDING(p) || pass[p].held[NOBODY] :: else -> read_demand(p) fi;
#ifdef ACK_FIRST         /* mutant: delete what woke the pass before it has committed */
        delete_held(p);
#endif
        printf("> deliver %d\n", p); shown()
       }
       if
#ifdef EMPTY_HANDED      /* mutant: a pass that finds nobody listed does not wait for the index */
       :: pass[p].held[NOBODY] && NEEDING(p) ->
#else
       :: pass[p].held[NOBODY] ->
#endif
            if
            :: atomic { INDEX_SHOWS_ALL -> if :: NEEDING(p) -> read_demand(p) :: else fi; printf("> look %d\n", p); shown() }
            :: atomic { deaths < DEATHS -> deaths++; dead[p] = true; printf("> die %d\n", p); shown() }
            fi
       :: else
       fi;
       do
       :: dead[p] || !pass[p].wants -> break
       :: else ->
            if
            :: atomic {
                UNMOVED(p, 0) && UNMOVED(p, 1) ->
                do_commit(p); forget_demand(p); printf("> commit %d\n", p); shown()
               }
            :: atomic {
                !(UNMOVED(p, 0) && UNMOVED(p, 1)) ->
                pass[p].attempts++;
                if
                :: pass[p].attempts < ATTEMPTS -> read_demand(p)
                :: else ->
                    forget_demand(p);
#ifndef NO_SECOND_WAKE   /* mutant: a pass that lost its races sends no wake-up */
                    visible[0] = visible[0] + pass[p].held[0]; visible[1] = visible[1] + pass[p].held[1];
                    visible[2] = visible[2] + pass[p].held[2];
#endif
                fi;
                printf("> lose %d\n", p); shown()
               }
            :: atomic { deaths < DEATHS -> deaths++; dead[p] = true; printf("> die %d\n", p); shown() }
            fi
       od;
       if
       :: dead[p]
       :: else ->
            if
            :: atomic { delete_held(p); printf("> ack %d\n", p); shown() }
            :: atomic { deaths < DEATHS -> deaths++; dead[p] = true; printf("> die %d\n", p); shown() }
            fi
       fi;
       atomic {          /* another process takes the place of one that died */
        if :: holder == p && dead[p] -> holder = NO_PLANNER;
                visible[0] = visible[0] + flying[0]; visible[1] = visible[1] + flying[1];
                visible[2] = visible[2] + flying[2];
                flying[0] = 0; flying[1] = 0; flying[2] = 0; printf("> expire\n"); shown()
           :: else fi;
        dead[p] = false; forget(p); busy--
       }
    od
}

proctype HiddenTime() {  /* of a pass that lives and is slow: from here on two passes overlap */
end:
    do
    :: atomic {
        deaths < DEATHS && holder != NO_PLANNER && !dead[holder] ->
        deaths++;
        visible[0] = visible[0] + flying[0]; visible[1] = visible[1] + flying[1]; visible[2] = visible[2] + flying[2];
        flying[0] = 0; flying[1] = 0; flying[2] = 0; holder = NO_PLANNER;
        printf("> expire\n"); shown()
       }
    od
}

#define SERVED(w) (!told[w] || !pool_told || !NEEDS(w))

proctype Quiet() {       /* when nobody writes, nothing is queued and no pass runs, everything that was told is done */
    atomic { writers == 0 && EMPTY && busy == 0 -> assert(SERVED(0) && SERVED(1)) }
}

init {
    atomic {
        run Writer(0, WRITES); run Writer(1, 1);
#ifdef POOL_LATER
        run Owner();
#endif
        run Index(0); run Index(1);
        run Planner(0); run Planner(1); run HiddenTime(); run Quiet()
    }
}

#ifdef LIVENESS
ltl everything_comes_about { <> (writers == 0 && placed[0] == WRITES && placed[1] == 1) }
#endif
