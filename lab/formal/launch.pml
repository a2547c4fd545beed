/* Leases and launches (docs/model-checking.md). Is a unit of a reservation ever promised to two, or a claim launched twice?

   Planners commit claims with a lease each. A launch records its attempt, marks the claim, asks EC2 with the attempt's
   token, records the outcome, settles the claim, completes the attempt; a message may come twice, and a run may die or
   be overtaken anywhere. Observations close the leases that they are certain to contain. A batch has one claim.

   A step is one effect outside, and after it the reads on which the next effect depends: reads are as old as they can
   be. Every step prints its name, and what is stored after it; tests/formal replays that on the code.

   Time is counted in ticks of about five minutes: longer than a function lives and than EC2's count lags, and two of
   them are longer than EC2 need remember a token. */

#ifndef CLAIMS
#define CLAIMS 2
#endif
#ifndef UNITS
#define UNITS 1          /* of the one reservation */
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef TICKS
#define TICKS 3
#endif
#ifndef DOUBLES
#define DOUBLES 1        /* messages that come once more */
#endif
#ifndef ENDS
#define ENDS 1           /* instances that end */
#endif
#define LAUNCHERS 2
#define ATTEMPTS 5       /* their numbers begin at 1 */

#define NONE 0           /* states of a claim */
#define PLANNED 1
#define LAUNCHING 2
#define LAUNCHED 3
#define FAILED 4
#define ENDED 5
#define HELD 1           /* states of a lease */
#define SETTLED 2
#define ABSORBED 3
#define RETURNED 4
#define UNKNOWN 0        /* outcomes of an attempt */
#define INSTANCE 1
#define NOTHING 2

#define IDLE 0           /* what a launch is about to do */
#define BEGIN 1
#define MARK 2
#define ASK 3
#define RESOLVE 4
#define SETTLE 5
#define COMPLETE 6
#define SEND_AGAIN 7
#define ACK 8

#define AWAITS(s) (s == PLANNED || s == LAUNCHING)
#define OPEN(c) (lease[c] == HELD || lease[c] == SETTLED)

/* the tables */
byte state[CLAIMS];
byte revision[CLAIMS];
byte marked[CLAIMS];     /* the attempt for which the claim was marked */
byte lease[CLAIMS];
byte settled_at[CLAIMS];
byte number[CLAIMS];     /* of the batch's latest attempt */
byte begun_at[CLAIMS];
byte outcome[CLAIMS];
bool completed[CLAIMS];
byte available = UNITS;  /* as observed last */
byte outstanding;

/* the queue of launches */
byte queued[CLAIMS];
byte doubles;

/* EC2 */
byte running[CLAIMS];    /* instances of the claim's batch */
byte launched[CLAIMS];   /* that there ever were */
byte token[CLAIMS];      /* the attempt of the latest call that launched */
byte asked_at[CLAIMS];
bool counted[CLAIMS];    /* EC2's count of what is available contains it */
byte ended;

byte now;
byte deaths;
byte unsent;             /* committed, and their message not sent yet */

typedef Run {
    byte claim;
    byte next;           /* the effect that it is about to have */
    bool straddles;      /* a tick passed since it began: functions live shorter than two */
    /* what it read */
    byte state;
    byte revision;
    byte marked;
    byte number;
    byte outcome;
    bool completed;
    byte begun_at;
    bool waits;          /* its claim is marked as launching */
    byte found;          /* the outcome that it is about to record */
    byte fruitless
};
Run run_of[LAUNCHERS];
bool observing;
bool observer_straddles;

#define INSTANCES (running[0] + running[1])
#define FREE_IN_EC2 (UNITS - INSTANCES)
#define PROMISED(c) (((lease[c] == HELD || lease[c] == SETTLED || lease[c] == ABSORBED) && (AWAITS(state[c]) || state[c] == LAUNCHED)) -> 1 : 0)

inline shown() {
    printf("= state %d %d lease %d %d marked %d %d number %d %d outcome %d %d completed %d %d balance %d %d queued %d %d running %d %d\n",
        state[0], state[1], lease[0], lease[1], marked[0], marked[1], number[0], number[1], outcome[0], outcome[1],
        completed[0], completed[1], available, outstanding, queued[0], queued[1], running[0], running[1]);
    /* what must hold after every step */
    assert(PROMISED(0) + PROMISED(1) <= UNITS);
    assert(launched[0] <= 1 && launched[1] <= 1);
    assert(outstanding == (OPEN(0) -> 1 : 0) + (OPEN(1) -> 1 : 0))
}

/* --- a planner for each claim */

proctype Planner(byte c) {
end:
    available > outstanding;
    if
#ifdef NO_LEASE_CONDITION /* mutant: the commit trusts what the planner read */
    :: atomic {
#else
    :: atomic {
        available > outstanding ->
#endif
        state[c] = PLANNED; revision[c] = 1; lease[c] = HELD; outstanding++; unsent++; printf("> plan %d\n", c); shown()
       }
       atomic { queued[c]++; unsent--; printf("> send %d\n", c); shown() }
    :: atomic { available <= outstanding -> printf("> refuse %d\n", c); shown() }
    fi
}

/* The next pass gives back a claim that it can do without, while nobody asked EC2 for it. */
proctype GiveBack(byte c) {
end:
    if
    :: atomic {
        state[c] == PLANNED ->
        state[c] = FAILED; revision[c]++; lease[c] = RETURNED; outstanding--; printf("> give_back %d\n", c); shown()
       }
    :: state[c] > PLANNED
    fi
}

proctype Quiet() {       /* what is queued by nobody and worked on by nobody has come to its end */
end:
    atomic {
        !queued[0] && !queued[1] && run_of[0].next == IDLE && run_of[1].next == IDLE && !unsent ->
        assert(!AWAITS(state[0]) && !AWAITS(state[1]))
    }
}

/* --- launches: shared/usecases/launching/launch.py */

#define ME run_of[l]
#define C run_of[l].claim
#define IS_MARKED (ME.state == LAUNCHING && ME.marked >= ME.number)
#define AGE (now - ME.begun_at)

inline read_claim(l) { ME.state = state[C]; ME.revision = revision[C]; ME.marked = marked[C] }
inline read_attempt(l) {
    ME.number = number[C]; ME.outcome = outcome[C]; ME.completed = completed[C]; ME.begun_at = begun_at[C]
}
inline forget(l) {
    ME.claim = 0; ME.next = IDLE; ME.straddles = false; ME.state = 0; ME.revision = 0; ME.marked = 0; ME.number = 0;
    ME.outcome = 0; ME.completed = false; ME.begun_at = 0; ME.waits = false; ME.found = 0; ME.fruitless = 0
}

/* What came of the attempt? */
inline find_out(l) {
    if
#ifdef BLIND_LAUNCH      /* mutant: EC2 is asked for claims that were given back meanwhile */
    :: AGE == 0 -> ME.next = ASK
#else
    :: AGE == 0 && ME.waits -> ME.next = ASK
    :: AGE == 0 && !ME.waits -> ME.found = NOTHING; ME.next = RESOLVE
#endif
#ifdef ALWAYS_REPLAY     /* mutant: the request is sent again, however old it is */
    :: AGE > 0 && ME.waits -> ME.next = ASK
    :: AGE > 0 && !ME.waits -> ME.found = NOTHING; ME.next = RESOLVE
#else
#ifdef ADOPT_EARLY       /* mutant: EC2's list is believed while somebody may still be about to ask */
    :: AGE >= 1 ->
#else
    :: AGE == 1 -> ME.next = SEND_AGAIN
    :: AGE >= 2 ->
#endif
        if
        :: running[C] && state[C] != LAUNCHED -> ME.found = INSTANCE
        :: else -> ME.found = NOTHING
        fi;
        ME.next = RESOLVE
#endif
    fi
}

inline go_on_with_attempt(l) {
    ME.waits = IS_MARKED;
    if
    :: AWAITS(ME.state) && !ME.waits -> ME.next = MARK
    :: else -> find_out(l)
    fi
}

inline apply_outcome(l) {
    ME.found = 0; ME.waits = false;
    if
    :: ME.outcome == INSTANCE && AWAITS(ME.state) -> ME.next = SETTLE
    :: else -> ME.next = COMPLETE
    fi
}

inline read_and_go_on(l) {
    read_claim(l); read_attempt(l); ME.found = 0; ME.waits = false;
    if
    :: ME.fruitless >= 3 && AWAITS(ME.state) -> ME.next = SEND_AGAIN
    :: ME.fruitless >= 3 && !AWAITS(ME.state) -> ME.next = ACK
    :: ME.fruitless < 3 && (ME.number == 0 || ME.completed) && AWAITS(ME.state) ->
        ME.begun_at = now; ME.next = BEGIN
    :: ME.fruitless < 3 && (ME.number == 0 || ME.completed) && !AWAITS(ME.state) -> ME.next = ACK
    :: ME.fruitless < 3 && ME.number && !ME.completed && ME.outcome == UNKNOWN -> go_on_with_attempt(l)
    :: ME.fruitless < 3 && ME.number && !ME.completed && ME.outcome != UNKNOWN -> apply_outcome(l)
    fi
}

proctype Launcher(byte l) {
end:
    do
    :: atomic {
        ME.next == IDLE && (queued[0] || queued[1]) ->
        if
        :: queued[0] -> C = 0
        :: queued[1] -> C = 1
        fi;
        queued[C]--; read_and_go_on(l); printf("> deliver %d %d\n", l, C); shown()
       }
    :: atomic {
        ME.next == BEGIN ->
        if
        :: number[C] == ME.number && (number[C] == 0 || completed[C]) ->
            assert(number[C] + 1 < ATTEMPTS);
            number[C] = number[C] + 1; outcome[C] = UNKNOWN; completed[C] = false; begun_at[C] = ME.begun_at
        :: else          /* somebody has begun it before */
        fi;
        read_attempt(l);
        if
        :: ME.outcome == UNKNOWN -> go_on_with_attempt(l)
        :: else -> read_claim(l); apply_outcome(l)
        fi;
        printf("> begin %d\n", l); shown()
       }
    :: atomic {
        ME.next == MARK ->
        if
        :: revision[C] == ME.revision ->
            state[C] = LAUNCHING; marked[C] = ME.number; revision[C]++;
            read_claim(l); ME.waits = true; find_out(l)
        :: else ->
            read_claim(l);
#ifdef STALE_MARK        /* mutant: that another run has marked it goes unseen */
            if :: AWAITS(ME.state) && !IS_MARKED :: else -> ME.waits = false; find_out(l) fi
#else
            go_on_with_attempt(l)
#endif
        fi;
        printf("> mark %d\n", l); shown()
       }
    :: atomic {
        ME.next == ASK ->
        if
        :: token[C] == ME.number && now - asked_at[C] < 2   /* the answer that it gave before */
        :: else ->
            assert(FREE_IN_EC2 > 0);                        /* what was promised is there */
            launched[C]++; running[C]++; counted[C] = false; token[C] = ME.number; asked_at[C] = now
        fi;
        ME.found = INSTANCE; ME.next = RESOLVE; printf("> ask %d\n", l); shown()
       }
    :: atomic {
        ME.next == RESOLVE ->
        if
        :: number[C] == ME.number && outcome[C] == UNKNOWN -> outcome[C] = ME.found
        :: else          /* the first record wins */
        fi;
        read_attempt(l);
        if
        :: ME.outcome != UNKNOWN -> read_claim(l); apply_outcome(l)
#ifdef OVERTAKEN         /* mutant: a run closes the attempt that another has begun meanwhile */
        :: else -> ME.next = COMPLETE
#else
        :: else -> ME.fruitless++; read_and_go_on(l)
#endif
        fi;
        printf("> resolve %d\n", l); shown()
       }
    :: atomic {
        ME.next == SETTLE ->
        if
        :: revision[C] == ME.revision ->
            state[C] = LAUNCHED; revision[C]++;
            if :: lease[C] == HELD -> lease[C] = SETTLED; settled_at[C] = asked_at[C] :: else fi
        :: else
        fi;
        read_claim(l); apply_outcome(l); printf("> settle %d\n", l); shown()
       }
    :: atomic {
        ME.next == COMPLETE ->
        if :: number[C] == ME.number && outcome[C] != UNKNOWN -> completed[C] = true :: else fi;
        if :: ME.outcome != INSTANCE -> ME.fruitless++ :: else fi;
        read_and_go_on(l); printf("> complete %d\n", l); shown()
       }
    :: atomic { ME.next == SEND_AGAIN -> queued[C]++; ME.next = ACK; printf("> send_again %d\n", l); shown() }
    :: atomic { ME.next == ACK -> printf("> ack %d\n", l); forget(l); shown() }
    :: atomic {
        ME.next != IDLE && deaths < DEATHS ->
        deaths++; queued[C]++; printf("> die %d\n", l); forget(l); shown()
       }
    od
}

/* --- observations: what EC2 shows, and which leases it is certain to contain */

#define SHOWN (UNITS - (counted[0] -> running[0] : 0) - (counted[1] -> running[1] : 0))
#ifdef ABSORB_ALL        /* mutant: an observation closes every settled lease, whenever it began */
#define CONTAINS(c) (lease[c] == SETTLED)
#else
#define CONTAINS(c) (lease[c] == SETTLED && settled_at[c] < now)
#endif

proctype Observer() {
    byte shown_free;
    bool closes[CLAIMS];
    byte read_revision[CLAIMS];
end:
    do
    :: atomic {
        /* an observation is worth a step when it tells something new */
        available != SHOWN || CONTAINS(0) || CONTAINS(1) ->
        observing = true;
        shown_free = SHOWN;
        closes[0] = CONTAINS(0); read_revision[0] = revision[0];
        closes[1] = CONTAINS(1); read_revision[1] = revision[1];
        printf("> observe %d\n", shown_free); shown()
       };
       atomic {
        if
        :: closes[0] && revision[0] == read_revision[0] -> lease[0] = ABSORBED; revision[0]++; outstanding--
        :: else
        fi;
        if
        :: closes[1] && revision[1] == read_revision[1] -> lease[1] = ABSORBED; revision[1]++; outstanding--
        :: else
        fi;
        available = shown_free;
        printf("> save %d\n", shown_free); shown();
        observing = false; observer_straddles = false; shown_free = 0;
        closes[0] = false; closes[1] = false; read_revision[0] = 0; read_revision[1] = 0
       }
    od
}

/* --- what else happens */

proctype Outside() {
end:
    do
    :: atomic { doubles < DOUBLES && queued[0] == 1 -> doubles++; queued[0]++; printf("> double 0\n"); shown() }
    :: atomic { doubles < DOUBLES && queued[1] == 1 -> doubles++; queued[1]++; printf("> double 1\n"); shown() }
    :: atomic { running[0] && !counted[0] -> counted[0] = true; printf("> count 0\n"); shown() }
    :: atomic { running[1] && !counted[1] -> counted[1] = true; printf("> count 1\n"); shown() }
    :: atomic {
        ended < ENDS && state[0] == LAUNCHED && running[0] == 1 ->
        ended++; state[0] = ENDED; revision[0]++; running[0] = 0; printf("> end 0\n"); shown()
       }
    :: atomic {
        now < TICKS && !run_of[0].straddles && !run_of[1].straddles && !observer_straddles ->
        now++;
        run_of[0].straddles = (run_of[0].next != IDLE); run_of[1].straddles = (run_of[1].next != IDLE);
        observer_straddles = observing;
        counted[0] = true; counted[1] = true;
        printf("> tick\n"); shown()
       }
    od
}

init {
    atomic {
        run Planner(0); run Planner(1); run GiveBack(0); run Launcher(0); run Launcher(1); run Observer(); run Outside(); run Quiet()
    }
}
