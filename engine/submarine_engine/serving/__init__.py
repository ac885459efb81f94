"""Models out to users: served by a scoring server as jobs, behind one address that stays.

``record``: what is served, on disk. ``model``: what can be served. ``replica``: what a replica's
job runs, MLServer or MLflow's own server. ``replicas``: a replica as the front sees it. ``front``:
the job that keeps the replicas and passes requests on to them. ``launching``: start, update, stop.
"""
