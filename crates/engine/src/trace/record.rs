//! `trace record`: a program below strace, or one that runs already; its log is taken in while it
//! is written.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::ValueEnum;
use plimsoll_trace::header::{Calibration, FORMAT, Header, ONE_CORE, Recorder};
use plimsoll_trace::import::Importer;

use super::fifo::Fifo;
use super::strace::Strace;
use super::{attached, calibrate, import, output, preload};

/// What was recorded is on disk after so long.
const FLUSH: Duration = Duration::from_secs(2);

/// By what is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// All calls, at some 35 us each
    Strace,
    /// Those that go through libc, at a fraction of a microsecond
    Preload,
}

/// What is to be recorded.
pub(super) struct RecordRequest {
    pub(super) source: Source,
    pub(super) output: PathBuf,
    /// It may be there already.
    pub(super) force: bool,
    /// Where to say what was recorded; stdout where it is not given.
    pub(super) report: Option<PathBuf>,
    pub(super) pids: Vec<u32>,
    pub(super) seconds: Option<f64>,
    pub(super) calibrated: bool,
    /// strace and the program share a core.
    pub(super) one_core: bool,
    pub(super) command: Vec<OsString>,
}

impl RecordRequest {
    /// Program and arguments, as text.
    pub(super) fn words(&self) -> Vec<String> {
        let words = self.command.iter();
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

pub(super) fn run(wanted: &RecordRequest) -> anyhow::Result<ExitCode> {
    if wanted.command.is_empty() == wanted.pids.is_empty() {
        bail!("give either a program (behind --) or the process to attach to (-p)");
    }
    if !wanted.force {
        output::check_new(&wanted.output)?;
    }
    output::check(&wanted.output, [])?;
    if let Some(program) = wanted.command.first() {
        check_program(program)?;
    }
    if wanted.source == Source::Preload {
        if wanted.one_core {
            bail!("--one-core is for strace only");
        }
        return preload::run(wanted);
    }
    for pid in &wanted.pids {
        if !PathBuf::from(format!("/proc/{pid}")).exists() {
            bail!("there is no process {pid}");
        }
    }
    if wanted.one_core && !wanted.pids.is_empty() {
        bail!("--one-core is for a program that is started: what runs already keeps its cores");
    }
    let strace = Strace::find(wanted.one_core)?;
    let calibration = if wanted.calibrated {
        Some(
            calibrate::strace(&strace)
                .context("measuring what tracing costs (--uncalibrated records without)")?,
        )
    } else {
        None
    };
    // From here on the program has the terminal: what ends it must not end us before its last words
    // are written.
    let signals = crate::signals::listen().context("cannot listen to signals")?;
    let mut ended = None;
    let footer = output::visibly(&wanted.output, |file| {
        let mut importer = Importer::new(file, &header(wanted, &strace, calibration))?;
        importer.look_up(read_link);
        for pid in &wanted.pids {
            attached::tell(importer.kernel(), *pid);
        }
        let since = Instant::now();
        let mut recording = Recording::start(wanted, &strace)?;
        recording.follow(&mut importer, wanted, &signals)?;
        if !wanted.pids.is_empty() {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            importer.ended_at(now.map_or(0, |since| since.as_nanos() as i64));
        }
        let status = recording.child.wait().context("waiting for strace")?;
        let elapsed = since.elapsed().as_nanos() as u64;
        let said = if wanted.pids.is_empty() {
            Some(number(status))
        } else {
            None
        };
        ended = said;
        let (file, footer) = importer.finish(said, Some(elapsed))?;
        if footer.events == 0 {
            bail!("nothing was recorded: {}", failure(status));
        }
        Ok((file, footer))
    })?;
    if wanted.calibrated {
        import::calibrate_again(&wanted.output, calibrate::strace(&strace).ok())?;
    }
    import::report(&wanted.output, &footer, wanted.report.as_deref())?;
    Ok(ended.map_or(ExitCode::SUCCESS, exit_code))
}

/// Refuses a program that is not there, before anything is measured for it.
fn check_program(program: &OsStr) -> anyhow::Result<()> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let is_there = if program.as_bytes().contains(&b'/') {
        Path::new(program).exists()
    } else {
        std::env::split_paths(&search).any(|directory| directory.join(program).is_file())
    };
    if !is_there {
        bail!("there is no program {}", Path::new(program).display());
    }
    Ok(())
}

/// What a symbolic link holds now: strace is told to leave out what is in buffers.
pub(super) fn read_link(path: &[u8]) -> Option<Vec<u8>> {
    let target = std::fs::read_link(OsStr::from_bytes(path)).ok()?;
    Some(target.into_os_string().into_vec())
}

/// That of the program; of one that a signal has ended, as a shell gives it.
pub(super) fn exit_code(status: i32) -> ExitCode {
    let code = if status < 0 { 128 - status } else { status };
    ExitCode::from(code.clamp(0, 255) as u8)
}

fn failure(status: ExitStatus) -> String {
    format!(
        "strace ended with {status} (it needs the right to trace: as the same user, and where kernel.yama.ptrace_scope allows it)"
    )
}

/// The status of a program, or the number of the signal that ended it, negative.
pub(super) fn number(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| -status.signal().unwrap_or(0))
}

fn header(wanted: &RecordRequest, strace: &Strace, calibration: Option<Calibration>) -> Header {
    let options = strace.options(!wanted.pids.is_empty());
    let options = options.iter().map(|word| word.to_string_lossy().into_owned());
    // Not strace's, but what was traced has seen one core only.
    let one_core = wanted.one_core.then(|| ONE_CORE.to_owned());
    let facts = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        text.trim().to_owned()
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Header {
        format: FORMAT.into(),
        recorder: Recorder::Strace,
        recorder_version: strace.version.clone(),
        options: options.chain(one_core).collect(),
        command: wanted.words(),
        attached: !wanted.pids.is_empty(),
        host: vec![
            facts("hostname"),
            facts("osrelease"),
            std::env::consts::ARCH.into(),
        ],
        zero_unix_ns: now.ok().map(|since| since.as_nanos() as i64),
        resolution_ns: 1_000,
        has_durations: true,
        calibration,
    }
}

struct Recording {
    child: Child,
    fifo: Fifo,
}

impl Recording {
    fn start(wanted: &RecordRequest, strace: &Strace) -> anyhow::Result<Self> {
        let fifo = Fifo::new().context("making a pipe for strace")?;
        let mut command: Command = strace.command(fifo.path().as_os_str(), !wanted.pids.is_empty());
        for pid in &wanted.pids {
            command.arg("-p").arg(pid.to_string());
        }
        if !wanted.command.is_empty() {
            command.arg("--").args(&wanted.command);
        }
        let child = strace.start(&mut command)?;
        Ok(Self { child, fifo })
    }

    /// Takes in what strace writes until it ends.
    fn follow(
        &mut self,
        importer: &mut Importer<File>,
        wanted: &RecordRequest,
        signals: &Receiver<i32>,
    ) -> anyhow::Result<()> {
        let since = Instant::now();
        let mut flushed = Instant::now();
        let mut asked = false;
        let mut held: Vec<u8> = Vec::new();
        let mut piece = vec![0; 256 * 1024];
        loop {
            let read = self
                .fifo
                .read(&mut self.child, &mut piece, Duration::from_millis(100));
            match read.context("reading what strace writes")? {
                Some(0) => break,
                Some(count) => {
                    held.extend_from_slice(&piece[..count]);
                    let end = held
                        .iter()
                        .rposition(|&byte| byte == b'\n')
                        .map_or(0, |end| end + 1);
                    for line in held[..end]
                        .split(|&byte| byte == b'\n')
                        .filter(|line| !line.is_empty())
                    {
                        importer.line(line, 1)?;
                    }
                    held.drain(..end);
                }
                None => {}
            }
            if flushed.elapsed() > FLUSH {
                importer.flush()?;
                flushed = Instant::now();
            }
            let is_over = wanted
                .seconds
                .is_some_and(|seconds| since.elapsed().as_secs_f64() > seconds);
            // Ctrl-C reaches strace and the program by themselves; an attached program must not be
            // ended by it.
            let is_told = signals.try_recv().is_ok();
            if (is_over || is_told) && !asked {
                asked = true;
                self.ask_to_end();
            }
        }
        if !held.is_empty() {
            importer.line(&held, 1)?;
            importer.mark_cut();
        }
        Ok(())
    }

    /// strace detaches from what it is attached to, and passes the signal on to a program that it
    /// has started.
    fn ask_to_end(&self) {
        // SAFETY: our own child, which nobody has waited for yet.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
    }
}
