//! `plimsoll-engine host`: performs the requests of the lab on the host of a service.
//!
//! The lab starts it over ssh. Requests are JSON lines on stdin, answers are JSON lines on stdout.
//! The processes that it starts run below guards whose stdin are pipes of this process. When this
//! process ends, for whatever reason, the pipes close, and the guards end their process trees.
//!
//! It also ends if the lab is silent for too long: a connection that is cut without a packet stays
//! open at this end for hours.

mod files;
mod processes;

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use processes::Processes;

/// The maximum size of a request: a configuration or a key in base64.
const MAX_REQUEST: usize = 64 * 1024 * 1024;

/// Arguments of `host`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Directory of the experiment's services on this host; created if necessary
    #[arg(long)]
    directory: PathBuf,
    /// Silence of the lab, in seconds, after which all processes end
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    silence: u64,
}

/// A request of the lab.
#[derive(Deserialize)]
struct Request {
    id: u64,
    #[serde(flatten)]
    operation: Operation,
}

/// What the lab requests. Paths are absolute. `data` is in base64.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Operation {
    /// Answers only: the lab is alive.
    Ping,
    Facts,
    Stat(files::Stat),
    MakeDirectory(files::MakeDirectory),
    Write(files::Write),
    Read(files::Read),
    List(files::List),
    Remove(files::Remove),
    Port(files::Port),
    Output(processes::Output),
    Start(processes::Start),
    Signal(processes::Signal),
    Act(processes::Act),
    Tree(processes::Tree),
    Stop(processes::Stop),
}

/// Writes answers and events, each as one line.
#[derive(Clone)]
struct Out(Arc<Mutex<std::io::Stdout>>);

impl Out {
    /// An error is ignored: if the lab has ended, stdin ends, too.
    fn say(&self, value: &Value) {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(out, "{value}").and_then(|()| out.flush());
    }

    fn answer(&self, id: u64, result: Result<Value>) {
        self.say(&match result {
            Ok(value) => json!({"id": id, "ok": value}),
            Err(error) => json!({
                "id": id,
                "error": format!("{error:#}"),
                "missing": error.downcast_ref::<std::io::Error>()
                    .is_some_and(|cause| cause.kind() == std::io::ErrorKind::NotFound),
            }),
        });
    }
}

/// Answers requests until stdin closes, or the lab is silent for too long.
pub(crate) fn serve(arguments: &Arguments) -> Result<()> {
    std::fs::create_dir_all(&arguments.directory)
        .with_context(|| format!("cannot create {}", arguments.directory.display()))?;
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || read_lines(&sender));
    let out = Out(Arc::new(Mutex::new(std::io::stdout())));
    let processes = Processes::new(arguments.directory.clone(), out.clone());
    let ended = loop {
        match lines.recv_timeout(Duration::from_secs(arguments.silence)) {
            Ok(line) => {
                if let Err(error) = begin(&line, &out, &processes) {
                    break Err(error);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                break Err(anyhow::anyhow!("the lab was silent for {} s", arguments.silence));
            }
        }
    };
    processes.end_all();
    ended
}

fn read_lines(sender: &Sender<String>) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        if sender.send(line).is_err() {
            return;
        }
    }
}

/// Performs a request, or starts a thread for one that waits for a process.
fn begin(line: &str, out: &Out, processes: &Processes) -> Result<()> {
    if line.len() > MAX_REQUEST {
        bail!("a request has more than {MAX_REQUEST} bytes");
    }
    let request: Request = serde_json::from_str(line).context("a request cannot be parsed")?;
    let id = request.id;
    match request.operation {
        Operation::Output(output) => {
            let out = out.clone();
            std::thread::spawn(move || out.answer(id, output.run()));
        }
        Operation::Stop(stop) => {
            let (out, processes) = (out.clone(), processes.clone());
            std::thread::spawn(move || out.answer(id, processes.stop(&stop)));
        }
        other => out.answer(id, perform(other, processes)),
    }
    Ok(())
}

fn perform(operation: Operation, processes: &Processes) -> Result<Value> {
    match operation {
        Operation::Ping => Ok(json!({})),
        Operation::Facts => files::facts(),
        Operation::Stat(stat) => Ok(stat.run()),
        Operation::MakeDirectory(make) => make.run(),
        Operation::Write(write) => write.run(),
        Operation::Read(read) => read.run(),
        Operation::List(list) => list.run(),
        Operation::Remove(remove) => Ok(remove.run()),
        Operation::Port(port) => port.run(),
        Operation::Start(start) => processes.start(&start),
        Operation::Signal(signal) => processes.signal(&signal),
        Operation::Act(act) => processes.act(&act),
        Operation::Tree(tree) => Ok(tree.run()),
        Operation::Output(_) | Operation::Stop(_) => unreachable!("`begin` performs them"),
    }
}
