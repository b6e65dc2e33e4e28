"""The one who pays: plans a run, drives the method, trains, keeps what was paid."""
