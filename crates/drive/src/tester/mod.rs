//! The work of one tester, without its I/O: the same for tasks (`lane`) and threads
//! (`lane::blocking_pool`).
//!
//! `cycle` is the state machine, and `policy` selects the requests and decides what follows a
//! failure. `session` combines transactions to sessions. `attempt` is the record of a transaction,
//! with `failure` and `limit` for its failures and timeouts. `control` is what all testers share:
//! start, end and budget of the run.

pub mod attempt;
pub mod control;
pub mod cycle;
pub mod failure;
pub mod limit;
pub mod policy;
pub mod session;
