//! `serve NAME`: runs a reference service until a signal ends it.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use plimsoll_services::{bind, broker, catalogue, delay, echo, frontier, null, sink};
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Arguments of `serve`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Service to run
    #[arg(value_enum)]
    name: Service,
    /// File with the configuration as JSON, or - for stdin
    #[arg(long)]
    config: Option<PathBuf>,
    /// Address to listen on; with port 0 the system selects a free port. The address is printed as
    /// a JSON line
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// End when the process that started this one ends
    #[arg(long)]
    end_with_parent: bool,
}

/// The services of the engine.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Service {
    Null,
    Catalogue,
    Echo,
    Delay,
    Frontier,
    Grid,
    Broker,
    Sink,
}

/// Serves until SIGINT or SIGTERM.
pub(crate) fn serve(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.end_with_parent {
        // SAFETY: this option takes plain numbers and has no memory effects.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
    }
    raise_open_files();
    let runtime = runtime().context("cannot start the runtime")?;
    runtime.block_on(run(arguments))?;
    // Blocking work that is in progress (a long query) must not delay the end.
    runtime.shutdown_background();
    Ok(())
}

/// Raises the limit of open files to its maximum: the usual limit of 1,024 is below the number of
/// clients of a load test.
fn raise_open_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid and writable for the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is valid for the call. If the call is refused, the limit is not changed.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

/// A runtime with one thread per core that this process may use. On one core a second thread would
/// only add cost.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if cores == 1 {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    } else {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(cores)
            .enable_all()
            .build()
    }
}

async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // The handlers are installed before the address is printed.
    let mut signals = [SignalKind::interrupt(), SignalKind::terminate()]
        .map(signal)
        .into_iter();
    let (Some(Ok(mut interrupt)), Some(Ok(mut terminate))) = (signals.next(), signals.next()) else {
        bail!("cannot listen to signals");
    };
    let shutdown = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    // The configuration is read first: when the address is printed, the service must be ready.
    match arguments.name {
        Service::Null => {
            let config = config(arguments)?;
            null::serve(listen(arguments)?, config, shutdown).await?;
        }
        Service::Sink => sink::serve(listen(arguments)?, shutdown).await?,
        Service::Catalogue => {
            let config = config(arguments)?;
            catalogue::serve(listen(arguments)?, config, shutdown).await?;
        }
        Service::Echo => {
            let config = config(arguments)?;
            echo::serve(listen(arguments)?, config, shutdown).await?;
        }
        Service::Delay => {
            let config = config(arguments)?;
            delay::serve(listen(arguments)?, config, shutdown).await?;
        }
        Service::Frontier => {
            let mut config: frontier::FrontierConfig = config(arguments)?;
            if let Some(invalidation) = &mut config.invalidation {
                invalidation.keys_file = invalidation
                    .keys_file
                    .take()
                    .or_else(|| keys_file(arguments.listen));
            }
            frontier::serve(listen(arguments)?, config, shutdown).await?;
        }
        Service::Grid => {
            let config = config(arguments)?;
            broker::serve_grid(listen(arguments)?, config, shutdown).await?;
        }
        Service::Broker => {
            let config = config(arguments)?;
            broker::serve_point(listen(arguments)?, config, shutdown).await?;
        }
    }
    Ok(())
}

/// The default file in which a gateway keeps the keys of objects that caches hold. Its name
/// contains the address, so that the next gateway at the same address finds it. `None` with port 0,
/// because the system selects another port each time.
fn keys_file(listen: SocketAddr) -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    let directory = state.filter(|path| path.is_absolute()).or_else(home)?;
    let name = listen.to_string().replace([':', '[', ']'], "-");
    (listen.port() != 0).then(|| directory.join(format!("plimsoll/frontier-keys-{name}")))
}

fn config<T: DeserializeOwned>(arguments: &Arguments) -> anyhow::Result<T> {
    match &arguments.config {
        Some(path) => crate::configuration(path),
        None => serde_json::from_str("{}").context("this service needs a configuration: use --config FILE"),
    }
}

fn listen(arguments: &Arguments) -> anyhow::Result<TcpListener> {
    let listener = bind(arguments.listen)?;
    let address = listener.local_addr().context("the socket has no address")?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::json!({ "listening": address.to_string() }))
        .and_then(|()| out.flush())
        .context("cannot write the address to stdout")?;
    Ok(listener)
}
