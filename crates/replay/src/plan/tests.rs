use plimsoll_trace::cost::{Cost, Guess};
use plimsoll_trace::event::{FileId, ThreadId};
use plimsoll_trace::header::{ONE_CORE, Recorder};
use plimsoll_trace::names::{FileEntry, Kind, ThreadEntry};
use plimsoll_trace::syscalls;

use super::*;
use crate::action::mark;

/// A trace that tests write call by call.
#[derive(Default)]
struct Script {
    names: Names,
    events: Vec<Event>,
}

fn open_id(number: usize) -> Option<OpenId> {
    OpenId::new(number)
}

impl Script {
    fn new(threads: u32) -> Self {
        let mut script = Self::default();
        for tid in 0..threads {
            let parent = tid.checked_sub(1).and(ThreadId::new(0));
            let entry = ThreadEntry {
                tid,
                pid: tid,
                parent,
            };
            script.names.add_thread(entry).unwrap();
        }
        script
    }

    fn path(&mut self, text: &[u8]) -> Option<PathId> {
        let known = self.names.paths().iter().position(|path| **path == *text);
        known.and_then(PathId::new).or_else(|| self.names.add_path(text))
    }

    fn file(&mut self, path: &[u8], kind: Kind) -> Option<FileId> {
        let path = self.path(path).unwrap();
        self.names.add_file(FileEntry { kind, path })
    }

    /// A call from `start` to `end` us that returned `value`.
    fn call(&mut self, thread: usize, name: &str, start: i64, end: i64, value: i64) -> &mut Event {
        let call = syscalls::find(name.as_bytes()).unwrap();
        let outcome = Outcome::Returned(value);
        let mut event = Event::new(ThreadId::new(thread).unwrap(), call, start * 1000, outcome);
        event.duration_ns = Some((end - start).unsigned_abs() * 1000);
        self.events.push(event);
        self.events.last_mut().unwrap()
    }

    fn plan(&self) -> Plan {
        self.plan_of(&header())
    }

    fn plan_of(&self, header: &Header) -> Plan {
        let path_beneath = |path| {
            let text = self.names.path(path);
            (!text.starts_with(b"/proc")).then(|| text.to_vec())
        };
        Plan::new(
            header,
            self.events.iter().copied(),
            &self.names,
            path_beneath,
            Options::default(),
        )
        .unwrap()
    }
}

fn header() -> Header {
    Header::new(Recorder::Strace, 1000)
}

/// The header of a trace that was recorded on one core.
fn on_one_core() -> Header {
    Header {
        options: vec![ONE_CORE.to_owned()],
        ..header()
    }
}

fn operations(worker: &Worker) -> Vec<&'static str> {
    let operations = worker.actions.iter().map(|action| action.operation.name());
    operations.collect()
}

#[test]
fn the_time_of_calls_without_action_is_added_to_the_next_action() {
    let mut script = Script::new(1);
    let (path, ignored) = (script.path(b"/a"), script.path(b"/proc/stat"));
    script.call(0, "brk", 100, 110, 0);
    script.call(0, "openat", 130, 150, 3).path = ignored;
    script.call(0, "stat", 200, 210, 0).path = path;
    script.call(0, "stat", 250, 260, 0).path = path;
    let plan = script.plan();
    let actions = &plan.workers[0].actions;
    assert_eq!(operations(&plan.workers[0]), ["stat", "stat"]);
    let times = |action: &Action| (action.computing_ns, action.waiting_ns, action.folded);
    assert_eq!(times(&actions[0]), (100_000, 0, 2));
    assert_eq!(times(&actions[1]), (40_000, 0, 0));
    assert_eq!((plan.ignored, plan.calls), (1, 4));
    assert_eq!(plan.span_ns(&Cost::of(None), Guess::Middle), 160_000);
}

#[test]
fn processor_time_distinguishes_computing_and_waiting() {
    let mut script = Script::new(1);
    let path = script.path(b"/a");
    script.call(0, "stat", 0, 10, 0).path = path;
    let event = script.call(0, "stat", 110, 120, 0);
    event.path = path;
    event.cpu_ns = Some(30_000);
    let times = |plan: Plan| {
        let action = plan.workers[0].actions[1];
        (action.computing_ns, action.waiting_ns)
    };
    assert_eq!(times(script.plan()), (30_000, 70_000));
    // The threads waited for the one core of the recording. The replay has more.
    assert_eq!(times(script.plan_of(&on_one_core())), (30_000, 0));
}

#[test]
fn only_the_last_close_is_marked_last() {
    let mut script = Script::new(1);
    let (path, file) = (script.path(b"/a"), script.file(b"/a", Kind::File));
    let mut call = |name, start, value, left| {
        let event = script.call(0, name, start, start + 1, value);
        event.open = open_id(0);
        event.file = file;
        event.length = left;
        event.path = path.filter(|_| name == "openat");
    };
    call("openat", 0, 3, None);
    call("dup", 10, 4, None);
    // This is a descriptor of a child, which has its own table.
    call("close", 20, 0, Some(2));
    call("close", 30, 0, Some(1));
    call("close", 40, 0, Some(0));
    let plan = script.plan();
    assert_eq!(operations(&plan.workers[0]), ["open", "dup", "close", "close"]);
    let last: Vec<_> = plan.workers[0]
        .actions
        .iter()
        .map(|action| action.has(mark::LAST))
        .collect();
    assert_eq!(last, [false, false, false, true]);
}

#[test]
fn a_differing_offset_of_an_open_file_is_set_first() {
    let mut script = Script::new(1);
    let file = script.file(b"/a", Kind::File);
    let mut read = |start, name, offset| {
        let event = script.call(0, name, start, start + 1, 10);
        (event.open, event.file) = (open_id(0), file);
        (event.offset, event.length) = (Some(offset), Some(10));
    };
    // The file was open before, at an unknown offset.
    read(0, "read", 50);
    read(10, "read", 60);
    read(20, "pread64", 0);
    read(30, "read", 70);
    // A call is missing in the trace.
    read(40, "read", 500);
    let plan = script.plan();
    let moved: Vec<_> = plan.workers[0]
        .actions
        .iter()
        .map(|action| action.has(mark::RESEEK))
        .collect();
    assert_eq!(moved, [true, false, false, false, true]);
    assert_eq!(plan.before.len(), 1);
}

#[test]
fn a_child_begins_with_its_fork_and_its_parent_waits() {
    let mut script = Script::new(2);
    let path = script.path(b"/a");
    script.call(0, "vfork", 0, 900, 7).other = ThreadId::new(1);
    script.call(1, "stat", 100, 110, 0).path = path;
    script.call(1, "execve", 200, 800, 0).path = path;
    script.call(0, "stat", 910, 920, 0).path = path;
    script.call(0, "wait4", 1000, 2000, 7).other = ThreadId::new(1);
    script.call(1, "+exited", 1900, 1900, 0);
    let plan = script.plan();
    let [parent, child] = &plan.workers[..] else {
        panic!()
    };
    assert!(child.is_forked && !parent.is_forked);
    assert_eq!(operations(parent), ["fork", "stat", "waiting"]);
    assert_eq!(operations(child), ["stat", "computing", "computing"]);
    assert_eq!(
        child.actions[0].computing_ns, 100_000,
        "since the start of the fork"
    );
    let edges: Vec<_> = parent.edges.iter().map(|edge| (edge.at, edge.until)).collect();
    assert_eq!(edges, [(1, 2), (2, 3)]);
    assert!(parent.actions[2].has(mark::CAUSED), "the child was waited for");
    assert_eq!(plan.most_at_once(), 2);
    // 200 until it executes, 600 for that, 1100 until it exits; the parent waits.
    assert_eq!(plan.span_ns(&Cost::of(None), Guess::Middle), 1_900_000);
}

#[test]
fn a_wait_for_a_signal_ends_with_the_end_of_a_child() {
    let mut script = Script::new(3);
    let path = script.path(b"/a");
    for child in 1..=2 {
        script.call(0, "vfork", 0, 10, 7).other = ThreadId::new(child);
        script.call(child, "stat", 100, 110, 0).path = path;
    }
    script.call(0, "rt_sigsuspend", 200, 1000, 0).outcome = Outcome::Restarted;
    script.call(1, "+exited", 900, 900, 0);
    script.call(0, "pause", 1100, 5000, 0).outcome = Outcome::Failed(4);
    script.call(2, "exit", 2000, 2010, 0);
    script.call(2, "+exited", 6000, 6000, 0);
    let plan = script.plan();
    let parent = &plan.workers[0];
    assert_eq!(operations(parent), ["fork", "fork", "waiting", "waiting"]);
    let caused: Vec<_> = parent
        .actions
        .iter()
        .map(|action| action.has(mark::CAUSED))
        .collect();
    assert_eq!(caused[2..], [true, true]);
    let edges: Vec<_> = parent.edges.iter().map(|edge| (edge.at, edge.worker)).collect();
    assert_eq!(edges, [(2, 1), (3, 2)]);
    script.events.retain(|event| event.thread.index() != 2);
    let alone = script.plan();
    let waits = &alone.workers[0].actions[3];
    assert!(
        !waits.has(mark::CAUSED),
        "another signal ended the wait, at its recorded time"
    );
}

/// A sequence of futex calls as of Python: threads pass on their lock, and the first thread joins
/// the second.
#[test]
fn a_futex_wait_ends_with_its_wake_up() {
    let mut script = Script::new(2);
    script.names.set_thread(
        ThreadId::new(1).unwrap(),
        ThreadEntry {
            tid: 1,
            pid: 0,
            parent: ThreadId::new(0),
        },
    );
    let futex = |script: &mut Script, thread, start, end, operation: &str, value| {
        let event = script.call(thread, "futex", start, end, value);
        event.offset = Some(0x40);
        event.flags = plimsoll_trace::constants::bits(operation.as_bytes());
        assert!(event.flags.is_some(), "{operation}");
    };
    script.call(0, "clone", 0, 10, 1).other = ThreadId::new(1);
    futex(
        &mut script,
        0,
        20,
        1000,
        "FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME",
        0,
    );
    futex(&mut script, 1, 900, 990, "FUTEX_WAKE_PRIVATE", 1);
    futex(&mut script, 1, 1100, 1101, "FUTEX_WAKE_PRIVATE", 0);
    futex(&mut script, 0, 1200, 3000, "FUTEX_WAIT", 0);
    script.call(1, "exit", 2900, 2900, 0);
    futex(&mut script, 0, 4000, 5000, "FUTEX_WAIT_PRIVATE", 0);
    let plan = script.plan();
    let [first, second] = &plan.workers[..] else {
        panic!()
    };
    assert_eq!(operations(first), ["fork", "waiting", "waiting", "waiting"]);
    assert_eq!(operations(second), ["computing", "computing", "computing"]);
    let caused: Vec<_> = first
        .actions
        .iter()
        .map(|action| action.has(mark::CAUSED))
        .collect();
    assert_eq!(
        caused,
        [false, true, true, false],
        "no recorded action ends the last wait"
    );
    let edges: Vec<_> = first.edges.iter().map(|edge| (edge.at, edge.until)).collect();
    assert_eq!(edges, [(1, 1), (2, 3)]);
    // The join ends at 2900, not at 3000. The last sleep has its recorded duration.
    let span = plan.span_ns(&Cost::of(None), Guess::Middle);
    assert_eq!(span, 4_900_000);
}

#[test]
fn pipes_are_not_opened_but_order_their_ends() {
    let mut script = Script::new(2);
    let pipe = script.file(b"pipe:", Kind::Pipe);
    let event = script.call(0, "pipe2", 0, 1, 0);
    (event.open, event.open2, event.file) = (open_id(0), open_id(1), pipe);
    script.call(0, "clone", 5, 6, 9).other = ThreadId::new(1);
    let event = script.call(0, "read", 10, 100, 5);
    (event.open, event.file, event.length) = (open_id(0), pipe, Some(100));
    let event = script.call(1, "write", 50, 60, 5);
    (event.open, event.file, event.length) = (open_id(1), pipe, Some(5));
    let event = script.call(1, "splice", 70, 80, 3);
    (event.open2, event.file2, event.length) = (open_id(1), pipe, Some(3));
    let plan = script.plan();
    assert_eq!(operations(&plan.workers[0]), ["fork", "waiting"]);
    assert_eq!(operations(&plan.workers[1]), ["waiting", "waiting"]);
    assert_eq!(plan.workers[0].edges.len(), 1);
    assert!(plan.workers[0].actions[1].has(mark::CAUSED));
    let written = |plan: &Plan| plan.workers[1].actions[0].has(mark::CAUSED);
    assert!(!written(&plan), "the pipe may have been full");
    assert!(
        written(&script.plan_of(&on_one_core())),
        "the writer lost the core to the reader"
    );
}

#[test]
fn system_calls_are_refused_and_the_umask_is_that_of_the_process() {
    let mut script = Script::new(1);
    let path = script.path(b"/a");
    script.call(0, "umask", 0, 1, 0o022).mode = Some(0o077);
    let event = script.call(0, "mkdir", 2, 3, 0);
    (event.path, event.mode) = (path, Some(0o777));
    script.call(0, "chown", 4, 5, 0).path = path;
    script.call(0, "mount", 6, 7, 0).path = path;
    let event = script.call(0, "mknod", 8, 9, 0);
    (event.path, event.mode) = (path, Some(0o06_0666));
    let plan = script.plan();
    assert_eq!(
        operations(&plan.workers[0]),
        ["mkdir", "refused", "refused", "refused"]
    );
    assert_eq!(plan.workers[0].actions[0].mode, 0o700);
}

#[test]
fn submitted_requests_are_made_and_not_waited_for() {
    let mut script = Script::new(2);
    let file = script.file(b"/a", Kind::File);
    let path = script.path(b"/a");
    let event = script.call(0, "openat", 0, 10, 3);
    (event.path, event.file, event.open) = (path, file, open_id(0));
    script.call(0, "io_submit", 20, 30, 1).length = Some(1);
    let event = script.call(0, "+read", 30, 30, 4096);
    (event.file, event.open) = (file, open_id(0));
    (event.offset, event.length) = (Some(8192), Some(4096));
    script.call(0, "io_getevents", 40, 90, 1);
    script.call(1, "io_getevents", 40, 90, 1);
    let plan = script.plan();
    let [first, second] = &plan.workers[..] else {
        panic!("two threads")
    };
    assert_eq!(operations(first), ["open", "pread64", "waiting"]);
    let read = first.actions[1];
    assert_eq!((read.offset, read.length, read.folded), (8192, 4096, 1));
    let waits = [first, second].map(|worker| worker.actions.last().unwrap().has(mark::HANDED));
    assert_eq!(waits, [true, false]);
    assert_eq!(plan.calls, 4);
}

#[test]
fn msync_is_replayed_only_if_maps_are_read() {
    let mut script = Script::new(1);
    let (path, file) = (script.path(b"/a"), script.file(b"/a", Kind::File));
    let event = script.call(0, "openat", 0, 10, 3);
    (event.path, event.file, event.open) = (path, file, open_id(0));
    let event = script.call(0, "msync", 20, 30, 0);
    (event.file, event.open) = (file, open_id(0));
    assert_eq!(operations(&script.plan().workers[0]), ["open"]);
    let path_beneath = |_| Some(b"/a".to_vec());
    let options = Options {
        read_maps: true,
        ..Options::default()
    };
    let events = script.events.iter().copied();
    let plan = Plan::new(&header(), events, &script.names, path_beneath, options).unwrap();
    assert_eq!(operations(&plan.workers[0]), ["open", "fdatasync"]);
}

#[test]
fn an_attribute_call_without_a_name_is_not_replayed() {
    let mut script = Script::new(1);
    let (path, name) = (script.path(b"/a"), script.path(b"user.colour"));
    script.call(0, "getxattr", 0, 10, 40).path = path;
    let event = script.call(0, "getxattr", 20, 30, 40);
    (event.path, event.path2) = (path, name);
    let plan = script.plan();
    assert_eq!(operations(&plan.workers[0]), ["getxattr"]);
    assert_eq!(plan.workers[0].actions[0].folded, 1);
}

/// An example is stderr that is a file and is not used.
#[test]
fn a_file_that_is_only_closed_is_not_opened() {
    let mut script = Script::new(1);
    let file = script.file(b"/log", Kind::File);
    for (start, name) in [(0, "ioctl"), (10, "close"), (20, "+released")] {
        let event = script.call(0, name, start, start + 5, 0);
        (event.file, event.open) = (file, open_id(0));
    }
    let plan = script.plan();
    assert!(plan.workers[0].actions.is_empty() && plan.before.is_empty());
}
