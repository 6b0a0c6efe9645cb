//! The lean server with a clock. When its stdin is closed, it prints quantiles of the times between
//! successive requests as JSON, in ms. They show the pacing of a load generator as the server sees
//! it.
#![allow(clippy::print_stdout)]

use std::io;
use std::net::TcpListener;
use std::time::Instant;

fn main() -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?);
    let mut gaps = Vec::with_capacity(1 << 20);
    let mut last: Option<Instant> = None;
    plimsoll_bench_lean::server::serve(&listener, || {
        let now = Instant::now();
        if let Some(before) = last.replace(now) {
            gaps.push((now - before).as_secs_f64() * 1e3);
        }
    })?;
    gaps.sort_by(f64::total_cmp);
    let quantile =
        |share: f64| gaps.get(((gaps.len() as f64 * share) as usize).min(gaps.len().saturating_sub(1)));
    println!(
        "{{\"requests\": {}, \"p50_ms\": {:.4}, \"p99_ms\": {:.4}, \"max_ms\": {:.4}}}",
        gaps.len() + 1,
        quantile(0.5).copied().unwrap_or(0.0),
        quantile(0.99).copied().unwrap_or(0.0),
        gaps.last().copied().unwrap_or(0.0)
    );
    Ok(())
}
