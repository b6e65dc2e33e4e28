"""Federations on Flower: its SuperLink and SuperNodes carry the messages.

The coordinator and each owner are processes of their own, in which this library runs; Flower's
programs beside them relay bytes through local sockets (`sockets`) and may live in an environment of
their own. So neither rows nor models are ever in a process of Flower's, a SuperNode that dies loses
nothing, and Flower's requirements cannot clash with this library's.
"""
