/* Wake-ups where groups of pools are planned side by side (docs/model-checking.md). Is what was written, and told, ever
   left without a pass, and do two passes ever exceed a pool's limit together?

   Whoever finds out for whom a wake-up is hands it on; with FEW it may as well find that few wait, at each look anew, and
   plan for all of them itself.

   Two pools that share nothing. One workload runs on the first, one on the second, and one on either: while it waits,
   both pools are one group. A queue with three message groups: of each, all that is visible is delivered at once, and
   nothing more until it was deleted or its hidden time is over. Indexes do not lag here; they do in wake.pml. */

#ifndef DEATHS
#define DEATHS 1         /* passes that die, anywhere, and passes that outlive their hidden time */
#endif
#ifndef ROOM
#define ROOM 1           /* replicas that each pool has room for */
#endif
#define FIRST 0          /* workloads: of the first pool, of either, of the second */
#define EITHER 1
#define SECOND 2
#define FIND 2           /* the message group of those who find out; 0 and 1 are those of the pools */
#define PASSES 2
#define NO_PASS 9
#define ATTEMPTS 2

bool wanted[3];
bool placed[3];
bool told[3];
byte used[2];            /* replicas on each pool */
byte turn[2];
byte writers = 3;
byte busy;
byte deaths;
byte visible[12];        /* by message group and the workload that is named; last, whether both pools were one group */
byte flying[12];
byte holder[3] = NO_PASS;

#define BOTH 3
#define AT(q, w) ((q) * 4 + (w))
#define NEEDS(w) (wanted[w] && !placed[w])
#define ANY(m, q) (m[AT(q, 0)] || m[AT(q, 1)] || m[AT(q, 2)] || m[AT(q, BOTH)])
#define EMPTY (!ANY(visible, 0) && !ANY(visible, 1) && !ANY(visible, 2) && !ANY(flying, 0) && !ANY(flying, 1) && !ANY(flying, 2))

typedef Pass {
    byte group;          /* the message group that it was woken by */
    bool named[4];
    bool needs[3];       /* as the pass read it */
    byte used[2];
    byte turn[2];
    byte attempts;
    bool few;            /* few wait in the groups that it finds */
    bool dead;
    bool gives_up
};
Pass pass[PASSES];

/* The groups as the pass sees them: one, under the first one's name, while whoever runs on either pool waits. */
#define JOINED(p) (pass[p].needs[EITHER])
#define DEMAND_0(p) (pass[p].needs[FIRST] || pass[p].needs[EITHER] || (JOINED(p) && pass[p].needs[SECOND]))
#define DEMAND_1(p) (!JOINED(p) && pass[p].needs[SECOND])
#define CONCERNS_0(p) (pass[p].named[FIRST] || pass[p].named[EITHER] || pass[p].named[BOTH] || \
    (JOINED(p) && (pass[p].named[SECOND] || pass[p].group == 1)))
#ifdef PARTS_FORGOTTEN   /* mutant: a wake-up says for which group it is, and not which pools that was */
#define CONCERNS_1(p) (pass[p].named[SECOND] || pass[p].named[EITHER])
#else
#define CONCERNS_1(p) (pass[p].named[SECOND] || pass[p].named[EITHER] || pass[p].named[BOTH])
#endif
#define HERE(p) (pass[p].group == FIND && pass[p].few)
#define HAS_0(p) (pass[p].group == 0 || (HERE(p) && DEMAND_0(p) && CONCERNS_0(p)))
#define HAS_1(p) (!JOINED(p) && (pass[p].group == 1 || (HERE(p) && DEMAND_1(p) && CONCERNS_1(p))))
#define MINE(p) ((HAS_0(p) && DEMAND_0(p)) || (HAS_1(p) && DEMAND_1(p)))
#define TAKES_0(p) (HAS_0(p))
#define TAKES_1(p) (HAS_1(p) || (HAS_0(p) && JOINED(p)))

inline look(p) {
    pass[p].needs[0] = NEEDS(0); pass[p].needs[1] = NEEDS(1); pass[p].needs[2] = NEEDS(2);
#ifdef FEW
    if :: pass[p].group == FIND -> pass[p].few = true :: pass[p].few = false fi
#else
    pass[p].few = false
#endif
}

inline read_turns(p) {
    pass[p].used[0] = used[0]; pass[p].used[1] = used[1];
    pass[p].turn[0] = turn[0]; pass[p].turn[1] = turn[1]
}

/* One message: it names one of those named, as far as they belong to the group, and says which pools the group has. */
inline send(p, key) {
    if
    :: key == 1 -> visible[AT(1, SECOND)]++
    :: key == 0 && JOINED(p) -> visible[AT(0, BOTH)]++
    :: key == 0 && !JOINED(p) -> visible[AT(0, FIRST)]++
    fi
}

inline forget(p) {
    pass[p].group = 0; pass[p].attempts = 0; pass[p].few = false; pass[p].dead = false; pass[p].gives_up = false;
    pass[p].named[0] = false; pass[p].named[1] = false; pass[p].named[2] = false; pass[p].named[BOTH] = false;
    pass[p].needs[0] = false; pass[p].needs[1] = false; pass[p].needs[2] = false;
    pass[p].used[0] = 0; pass[p].used[1] = 0; pass[p].turn[0] = 0; pass[p].turn[1] = 0
}

inline give_back(q) {
    visible[AT(q, BOTH)] = visible[AT(q, BOTH)] + flying[AT(q, BOTH)]; flying[AT(q, BOTH)] = 0;
    visible[AT(q, 0)] = visible[AT(q, 0)] + flying[AT(q, 0)];
    visible[AT(q, 1)] = visible[AT(q, 1)] + flying[AT(q, 1)];
    visible[AT(q, 2)] = visible[AT(q, 2)] + flying[AT(q, 2)];
    flying[AT(q, 0)] = 0; flying[AT(q, 1)] = 0; flying[AT(q, 2)] = 0; holder[q] = NO_PASS
}

inline delete_held(p) {
    if :: holder[pass[p].group] == p ->
            flying[AT(pass[p].group, 0)] = 0; flying[AT(pass[p].group, 1)] = 0; flying[AT(pass[p].group, 2)] = 0;
            flying[AT(pass[p].group, BOTH)] = 0; holder[pass[p].group] = NO_PASS
       :: else fi
}

#ifdef NO_TURNS          /* mutant: a commit needs its workloads to wait still, and counts no turns */
#define IN_TURN(p) true
#else
#define IN_TURN(p) ((!TAKES_0(p) || turn[0] == pass[p].turn[0]) && (!TAKES_1(p) || turn[1] == pass[p].turn[1]))
#endif
#define STILL(p, w) (!pass[p].needs[w] || NEEDS(w))

inline put(p, w, pool) {
    if :: pass[p].needs[w] && pass[p].used[pool] < ROOM ->
            placed[w] = true; pass[p].needs[w] = false; pass[p].used[pool]++; used[pool]++
       :: else fi
}

inline do_commit(p) {
    if :: TAKES_0(p) -> turn[0]++ :: else fi;
    if :: TAKES_1(p) -> turn[1]++ :: else fi;
    if :: HAS_1(p) -> put(p, SECOND, 1) :: else fi;
    if
    :: HAS_0(p) && !JOINED(p) -> put(p, FIRST, 0)
    :: HAS_0(p) && JOINED(p) ->
        put(p, FIRST, 0); put(p, SECOND, 1);
        if :: pass[p].used[0] < ROOM -> put(p, EITHER, 0)
           :: pass[p].used[1] < ROOM -> put(p, EITHER, 1)
           :: else fi
    :: else
    fi;
    assert(used[0] <= ROOM && used[1] <= ROOM)
}

proctype Writer(byte w) {
    atomic { wanted[w] = true }
#ifdef UNTOLD            /* whoever writes what runs on either pool dies before the wake-up */
    atomic { if :: w != EITHER -> visible[AT(FIND, w)]++; told[w] = true :: else fi; writers-- }
#else
    atomic { visible[AT(FIND, w)]++; told[w] = true; writers-- }
#endif
}

inline perhaps_die(p) {
    if :: atomic { deaths < DEATHS -> deaths++; pass[p].dead = true }
       :: true
    fi
}

proctype Planner(byte p) {
    byte k;
end:
    do
    :: atomic {
        if
        :: holder[0] == NO_PASS && ANY(visible, 0) -> pass[p].group = 0
        :: holder[1] == NO_PASS && ANY(visible, 1) -> pass[p].group = 1
        :: holder[2] == NO_PASS && ANY(visible, 2) -> pass[p].group = 2
        fi;
        busy++; holder[pass[p].group] = p; k = pass[p].group;
        pass[p].named[0] = visible[AT(k, 0)]; pass[p].named[1] = visible[AT(k, 1)]; pass[p].named[2] = visible[AT(k, 2)];
        flying[AT(k, 0)] = visible[AT(k, 0)]; flying[AT(k, 1)] = visible[AT(k, 1)]; flying[AT(k, 2)] = visible[AT(k, 2)];
        pass[p].named[BOTH] = visible[AT(k, BOTH)]; flying[AT(k, BOTH)] = visible[AT(k, BOTH)]; visible[AT(k, BOTH)] = 0;
        visible[AT(k, 0)] = 0; visible[AT(k, 1)] = 0; visible[AT(k, 2)] = 0;
        look(p);
#ifdef ACK_FIRST         /* mutant: delete what woke the pass before it has handed on */
        delete_held(p)
#endif
       }
hand_on:
       perhaps_die(p);
       if
#ifdef STALE_DROPPED     /* mutant: a wake-up for a group that is part of another is not handed on */
       :: !pass[p].dead && pass[p].group == FIND && DEMAND_0(p) && CONCERNS_0(p) -> atomic { send(p, 0) }
#else
       :: !pass[p].dead && !HAS_0(p) && DEMAND_0(p) && CONCERNS_0(p) -> atomic { send(p, 0) }
#endif
       :: else
       fi;
       perhaps_die(p);
       if
       :: !pass[p].dead && !HAS_1(p) && DEMAND_1(p) && CONCERNS_1(p) -> atomic { send(p, 1) }
       :: else
       fi;
       if
       :: !pass[p].dead && MINE(p) ->
            atomic { read_turns(p) }
            perhaps_die(p);
            atomic {
                if
                :: pass[p].dead
                :: !pass[p].dead && IN_TURN(p) && STILL(p, 0) && STILL(p, 1) && STILL(p, 2) -> do_commit(p)
                :: !pass[p].dead && !(IN_TURN(p) && STILL(p, 0) && STILL(p, 1) && STILL(p, 2)) ->
                    pass[p].attempts++;
                    if
                    :: pass[p].attempts < ATTEMPTS -> look(p); goto hand_on
                    :: else -> pass[p].gives_up = true
                    fi
                fi
            }
       :: else
       fi;
       if
       :: pass[p].gives_up && !pass[p].dead ->
            atomic {
                if :: pass[p].named[0] || pass[p].named[BOTH] -> visible[AT(FIND, 0)]++ :: else fi;
                if :: pass[p].named[1] || pass[p].named[BOTH] -> visible[AT(FIND, 1)]++ :: else fi;
                if :: pass[p].named[2] || pass[p].named[BOTH] -> visible[AT(FIND, 2)]++ :: else fi
            }
       :: else
       fi;
       perhaps_die(p);
       atomic {
        if
        :: !pass[p].dead -> delete_held(p)
        :: pass[p].dead && holder[pass[p].group] == p -> give_back(pass[p].group)
        :: else
        fi;
        forget(p); k = 0; busy--
       }
    od
}

proctype HiddenTime(byte q) {
end:
    do
    :: atomic { deaths < DEATHS && holder[q] != NO_PASS && !pass[holder[q]].dead -> deaths++; give_back(q) }
    od
}

#define SERVED(w) (!told[w] || !NEEDS(w))
#define NO_ROOM(pool) (used[pool] == ROOM)

proctype Quiet() {       /* when nobody writes, nothing is queued and no pass runs, only who has no room waits */
    atomic {
        writers == 0 && EMPTY && busy == 0 ->
        assert(SERVED(FIRST) || NO_ROOM(0));
        assert(SERVED(SECOND) || NO_ROOM(1));
        assert(SERVED(EITHER) || (NO_ROOM(0) && NO_ROOM(1)))
    }
}

init {
    atomic {
        run Writer(0); run Writer(1); run Writer(2);
        run Planner(0); run Planner(1);
        run HiddenTime(0); run HiddenTime(1); run HiddenTime(2); run Quiet()
    }
}
